import t from 'tap'
import { qrPng } from '../../../../api/features/invitations/qr.ts'
import { pathOf, startTestApi } from '../../../support/api.ts'
import { invitationWorld } from '../../../support/invitations.ts'
import { readQr } from '../../../support/qr.ts'

t.test('zbar reads what was drawn, of any length that a link can have', async (t) => {
  for (const length of [1, 20, 100, 200, 300, 400, 600]) {
    const text = `https://${'x'.repeat(length)}`
    t.strictSame(await readQr(qrPng(text)), { texts: [text], width: 512, height: 512 })
  }
  t.throws(() => qrPng('x'.repeat(5000)))
})

const api = await startTestApi(t)
const world = invitationWorld(api)
const { member } = api.people
const show = (url: string) => api.call(undefined, 'GET', pathOf(url))

t.test('the picture of an invitation is its link, as long as that works', async (t) => {
  const at = await world.event()
  const first = await world.invite(at)
  const shown = await show(first.qrUrl)
  t.strictSame([shown.status, shown.headers.get('content-type')], [200, 'image/png'])
  t.match(shown.headers.get('cache-control'), /no-store/)
  t.strictSame((await readQr(shown.body)).texts, [first.url])

  const second = { ...first, ...(await world.reissue(member, first)).data }
  t.equal((await show(first.qrUrl)).status, 404, 'that of the previous link is gone')
  t.strictSame((await readQr((await show(second.qr_png_url)).body)).texts, [second.invite_url])
  await world.respond(api.people.stranger, first, { token: second.invite_url.split('#t=')[1] })
  t.equal((await show(second.qr_png_url)).status, 404, 'and so is that of an invitation that was answered')
})

t.test('no other address shows a picture', async (t) => {
  const at = await world.event()
  const [one, other] = [await world.invite(at), await world.invite(at)]
  const [, , token = '', id = '', file = ''] = pathOf(one.qrUrl).split('/')
  const [, , otherToken = ''] = pathOf(other.qrUrl).split('/')
  const wrong = [
    `/q/${otherToken}/${id}/${file}`,
    `/q/${token}/${other.id}/${file}`,
    `/q/${token}/${id}/2.png`,
    `/q/${token}/${id}/1.svg`,
    `/q/${token}/${id}`,
    `/q/${token}/${id}/01.png`,
    `/q/${token.slice(0, -1)}/${id}/${file}`,
    `/q/x/${id}/${file}`,
    `/d/${token}/${id}/${file}`,
  ]
  for (const path of wrong) t.strictSame([path, (await api.call(undefined, 'GET', path)).status], [path, 404])
  t.equal((await api.call(undefined, 'GET', `/q/${token}/${id}/${file}`)).status, 200)
  await world.expire(one)
  t.equal((await api.call(undefined, 'GET', `/q/${token}/${id}/${file}`)).status, 404, 'by the clock of the database')
})
