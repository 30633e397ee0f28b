import t from 'tap'
import { bytesOf, quantityOf } from '../../../operator/jobs/quantity.ts'

t.test('quantities', async (t) => {
  t.equal(bytesOf('2Gi'), 2 ** 31)
  t.equal(bytesOf('1.5G'), 1_500_000_000)
  t.equal(bytesOf('512'), 512)
  t.ok(Number.isNaN(bytesOf('much')))
  for (const text of ['3Gi', '1536Mi', '5Ki', '1025']) t.equal(quantityOf(bytesOf(text)), text)
  t.equal(quantityOf(bytesOf('4096Mi')), '4Gi', 'in the largest unit')
})
