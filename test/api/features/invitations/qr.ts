import { syncBuiltinESMExports } from 'node:module'
import zlib from 'node:zlib'
import t from 'tap'
import { qrPng } from '../../../../api/features/invitations/qr.ts'
import { qrPictures } from '../../../../api/features/invitations/qr-pictures.ts'
import { pathOf, startTestApi } from '../../../support/api.ts'
import { invitationWorld } from '../../../support/invitations.ts'
import { readQr } from '../../../support/qr.ts'

const api = await startTestApi(t)
const world = invitationWorld(api)
const { member } = api.people
const show = (url: string) => api.call(undefined, 'GET', pathOf(url))

t.test('zbar reads what was drawn, of any length that a link can have', async (t) => {
  for (const length of [1, 20, 100, 200, 300, 400, 600]) {
    const text = `https://${'x'.repeat(length)}`
    t.strictSame(await readQr(qrPng(text)), { texts: [text], width: 512, height: 512 })
  }
  t.throws(() => qrPng('x'.repeat(5000)))
})

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

t.test('however often a picture is asked for, it is drawn once per generation of the link', async (t) => {
  let drawn = 0
  const { deflateSync } = zlib
  // Every picture of this process is compressed once.
  zlib.deflateSync = ((...given: Parameters<typeof deflateSync>) => {
    drawn += 1
    return deflateSync(...given)
  }) as typeof deflateSync
  syncBuiltinESMExports()
  t.teardown(() => {
    zlib.deflateSync = deflateSync
    syncBuiltinESMExports()
  })
  const first = await world.invite(await world.event())
  const shown = await Promise.all(Array.from({ length: 300 }, () => show(first.qrUrl)))
  for (const { status, body } of shown) t.ok(status === 200 && body.equals(shown[0]?.body))
  t.equal(drawn, 1)
  const second = (await world.reissue(member, first)).data
  for (let n = 0; n < 3; n++) {
    t.strictSame((await readQr((await show(second.qr_png_url)).body)).texts, [second.invite_url])
  }
  t.equal((await show(first.qrUrl)).status, 404, 'the earlier one is not shown from memory')
  t.equal(drawn, 2)
})

t.test('of the pictures in memory the ones that were not asked for the longest go first', async (t) => {
  const drawn: string[] = []
  const draw = (text: string) => {
    drawn.push(text)
    return Buffer.from(text)
  }
  const pictures = qrPictures({ max: 2, draw })
  for (const key of ['a', 'b', 'a', 'c', 'a', 'b']) t.equal(String(await pictures(key, async () => key)), key)
  t.strictSame(drawn, ['a', 'b', 'c', 'b'])
})

t.test('a picture that could not be drawn is tried again', async (t) => {
  const pictures = qrPictures({ draw: Buffer.from })
  const failing = () => pictures('a', () => Promise.reject(new Error('no key')))
  for (const failed of [failing(), failing()]) await t.rejects(failed, { message: 'no key' })
  t.equal(String(await pictures('a', async () => 'text')), 'text')
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
