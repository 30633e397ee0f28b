import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import t from 'tap'
import { openLinks } from '../../../../api/features/media/delivery/links.ts'
import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { outputPrefix } from '../../../../lib/contract/object-keys.ts'
import { fakeMp4, formOf, type Person, pathOf, startTestApi, uuidOf } from '../../../support/api.ts'

// Stands still: a link may be made at the very end of its quarter of an hour, and then lives to the second.
const started = Date.now()
let skewMs = 0
const clock = { now: () => new Date(started + skewMs) }
const api = await startTestApi(t, { clock })
const { people, org, call, store } = api
const sql = (text: string, values: unknown[] = []) => api.database.admin.query(text, values).then((r) => r.rows)
const orgId = uuidOf('organization', org)

const BYTES = fakeMp4(10_000)
const NAME = "Fête à l'eau; x.mp4"
const uploaded = await call(people.member, 'POST', `/api/media/${org}/single`, { form: formOf(BYTES, NAME) })
const mediaId = uuidOf('media', uploaded.data.media_id)
const prefix = outputPrefix(orgId, mediaId, 1)
await store.put(`${prefix}master.m3u8`, '#EXTM3U\n360p.m3u8\n', { contentType: 'application/vnd.apple.mpegurl' })
await store.put(`${prefix}360p/00000.ts`, randomBytes(2000), { contentType: 'video/mp2t' })
/** HEVC beside the renditions: the link to the master playlist opens all of it under other names. */
const HEVC = [
  ['master-hevc.m3u8', 'application/vnd.apple.mpegurl'],
  ['1080p-hevc_init.mp4', 'video/mp4'],
  ['1080p-hevc_00000.m4s', 'video/iso.segment'],
] as const
for (const [name, contentType] of HEVC) await store.put(`${prefix}${name}`, randomBytes(200), { contentType })
await store.put(`${prefix}manifest.json`, '{"location":"secret"}', { contentType: 'application/json' })
await sql(`update media set output_prefix = $2, hls_master = 'master.m3u8' where id = $1`, [mediaId, prefix])
const shown = (await call(people.member, 'GET', `/api/media/${org}/${formatId('media', mediaId)}`)).data
const original = pathOf(shown.original_url)
const master = pathOf(shown.variants.hls_master_url)
const token = original.split('/')[2] ?? ''

const get = (path: string, headers: Record<string, string> = {}, method = 'GET') =>
  call(undefined, method, path, { headers })

/** fetch() tidies paths before it sends them; attackers do not. */
const raw = (path: string) =>
  new Promise<{ status: number; body: string }>((resolve, reject) => {
    const { hostname, port } = new URL(api.publicUrl)
    const req = request({ hostname, port, path, agent: false }, (res) => {
      let body = ''
      res.setEncoding('utf8').on('data', (d) => {
        body += d
      })
      res.on('end', () => resolve({ status: res.statusCode ?? 0, body }))
    })
    req.on('error', reject).end()
  })

t.test('the original is an attachment that nothing can be made of but a download', async (t) => {
  const { status, headers, body } = await get(original)
  t.equal(status, 200)
  t.ok(body.equals(BYTES))
  const expected = {
    'content-type': 'video/mp4',
    'content-length': '10000',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "sandbox; default-src 'none'",
    'access-control-allow-origin': '*',
    'accept-ranges': 'bytes',
    'cross-origin-resource-policy': 'cross-origin',
  }
  for (const [name, value] of Object.entries(expected)) t.equal(headers.get(name), value, name)
  t.equal(
    headers.get('content-disposition'),
    `attachment; filename="F?te ? l'eau; x.mp4"; filename*=UTF-8''F%C3%AAte%20%C3%A0%20l%27eau%3B%20x.mp4`,
  )
  t.match(headers.get('cache-control'), /^private, max-age=\d+$/)
  t.match(headers.get('etag'), /^"/)
})

t.test('a playlist is kept for a while once nothing can follow', async (t) => {
  await sql(`update media set upload_status = 'completed' where id = $1`, [mediaId])
  t.equal((await get(master)).headers.get('cache-control'), 'private, max-age=60')
  await sql(`update media set upload_status = 'processing' where id = $1`, [mediaId])
})

t.test('playlists and segments have their types, and relative addresses work', async (t) => {
  const playlist = await get(master)
  t.equal(playlist.headers.get('content-type'), 'application/vnd.apple.mpegurl')
  t.equal(playlist.headers.get('cache-control'), 'private, no-cache', 'more renditions may follow')
  t.equal(playlist.headers.get('content-disposition'), null)
  const segment = await get(new URL('360p/00000.ts', `http://x${master}`).pathname)
  t.equal(segment.status, 200)
  t.equal(segment.headers.get('content-type'), 'video/mp2t')
  for (const [name, type] of HEVC) {
    const file = await get(new URL(name, `http://x${master}`).pathname)
    t.strictSame([file.status, file.headers.get('content-type')], [200, type], name)
  }
  t.match(segment.headers.get('cache-control'), /^private, max-age=\d+, immutable$/)
  t.equal(segment.headers.get('access-control-allow-origin'), '*')
})

t.test('HEAD says the same without the bytes', async (t) => {
  for (const asked of [{}, { range: 'bytes=0-99' }, { range: 'bytes=10000-' }]) {
    const [head, whole] = [await get(original, asked, 'HEAD'), await get(original, asked)]
    t.equal(head.status, whole.status)
    const said = ({ headers }: typeof head) =>
      ['content-type', 'content-length', 'content-range', 'etag', 'cache-control'].map((name) => headers.get(name))
    t.strictSame(said(head), said(whole))
    t.equal(head.body.length, 0)
  }
  const { headers } = await get(original)
  t.equal((await get(original, { 'if-none-match': headers.get('etag') ?? '' }, 'HEAD')).status, 304)
  t.equal((await get(original.replace(/original$/, 'v1/360p/00009.ts'), {}, 'HEAD')).status, 404)
})

const RANGES: [string, number, string | null, [number, number] | undefined][] = [
  ['bytes=0-99', 206, 'bytes 0-99/10000', [0, 100]],
  ['bytes=9990-', 206, 'bytes 9990-9999/10000', [9990, 10_000]],
  ['bytes=-10', 206, 'bytes 9990-9999/10000', [9990, 10_000]],
  ['bytes=-99999', 206, 'bytes 0-9999/10000', [0, 10_000]],
  ['bytes=9999-99999', 206, 'bytes 9999-9999/10000', [9999, 10_000]],
  ['bytes=10000-', 416, 'bytes */10000', undefined],
  ['bytes=-0', 416, 'bytes */10000', undefined],
  ['bytes=5-2', 200, null, [0, 10_000]],
  ['bytes=0-1,5-6', 200, null, [0, 10_000]],
  ['lines=1-2', 200, null, [0, 10_000]],
  ['bytes=-', 200, null, [0, 10_000]],
  ['bytes=99999999999999999999-', 200, null, [0, 10_000]],
]
for (const [range, status, contentRange, span] of RANGES) {
  t.test(`Range: ${range} is answered with ${status}`, async (t) => {
    const answer = await get(original, { range })
    t.equal(answer.status, status)
    t.equal(answer.headers.get('content-range'), contentRange)
    if (span) t.ok(answer.body.equals(BYTES.subarray(...span)))
    else t.equal(answer.body.length, 0)
  })
}

t.test('conditions decide whether anything is sent, and how much', async (t) => {
  const first = await get(original)
  const tag = first.headers.get('etag') ?? ''
  const date = first.headers.get('last-modified') ?? ''
  t.equal((await get(original, { 'if-none-match': tag })).status, 304)
  t.equal((await get(original, { 'if-none-match': `"x", W/${tag}` })).status, 304)
  t.equal((await get(original, { 'if-none-match': '*' })).status, 304)
  t.equal((await get(original, { 'if-none-match': '"x"' })).status, 200)
  const range = 'bytes=0-9'
  t.equal((await get(original, { range, 'if-range': tag })).status, 206)
  t.equal((await get(original, { range, 'if-range': date })).status, 206)
  t.equal((await get(original, { range, 'if-range': '"x"' })).status, 200)
  t.equal((await get(original, { range, 'if-range': `W/${tag}` })).status, 200)
})

const [kid = '', exp = '', mac = ''] = token.split('.')
const otherMedia = newUuid()
const later = (Number.parseInt(exp, 36) + 900).toString(36)
const flipped = `${mac[0] === 'A' ? 'B' : 'A'}${mac.slice(1)}`
// The last character of 16 bytes in base64url carries four bits that mean nothing.
const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
const sameBytes = mac.slice(0, -1) + alphabet[(alphabet.indexOf(mac.at(-1) ?? '') & 0b110000) + 1]
const rest = original.slice(`/d/${token}/`.length)
const below = rest.replace(/original$/, '')
const ATTACKS: [string, string][] = [
  ['another media', `/d/${token}/${rest.replace(mediaId, otherMedia)}`],
  ['another organization', `/d/${token}/${rest.replace(orgId, otherMedia)}`],
  ['another expiry', `/d/${kid}.${later}.${mac}/${rest}`],
  ['an expiry in capitals', `/d/${kid}.${exp.toUpperCase()}.${mac}/${rest}`],
  ['another key', `/d/b.${exp}.${mac}/${rest}`],
  ['an unknown key', `/d/zz.${exp}.${mac}/${rest}`],
  ['a key of the prototype', `/d/toString.${exp}.${mac}/${rest}`],
  ['a cut mac', `/d/${kid}.${exp}.${mac.slice(0, -1)}/${rest}`],
  ['a longer mac', `/d/${kid}.${exp}.${mac}A/${rest}`],
  ['a changed mac', `/d/${kid}.${exp}.${flipped}/${rest}`],
  ['another way to write the same mac', `/d/${kid}.${exp}.${sameBytes}/${rest}`],
  ['no mac', `/d/${kid}.${exp}./${rest}`],
  ['no token', `/d//${rest}`],
  ['the manifest', `/d/${token}/${below}v1/manifest.json`],
  ['no file', `/d/${token}/${below}v1/nothing.ts`],
  ['the folder', `/d/${token}/${below}`],
  ['the folder of the outputs', `/d/${token}/${below}v1/`],
  ['climbing out', `/d/${token}/${below}v1/../../../../x`],
  ['climbing back to the same', `/d/${token}/${below}v1/../original`],
  ['climbing with escapes', `/d/${token}/${below}v1/%2e%2e/original`],
  ['climbing with escaped slashes', `/d/${token}/${below}v1%2f..%2foriginal`],
  ['climbing with doubled escapes', `/d/${token}/${below}v1/%252e%252e/original`],
  ['an escaped letter would be the same', `/d/${token}/${below}%00original`],
  ['backslashes', `/d/${token}/${below}v1\\..\\original`],
  ['a double slash', `/d/${token}/${below}/original`],
  ['a hidden file', `/d/${token}/${below}v1/.htaccess.ts`],
  ['a bad escape', `/d/${token}/${below}v1/%zz`],
  ['the staging area', `/d/${token}/org/${orgId}/staging/${mediaId}/0`],
  ['nothing at all', '/d/'],
]
for (const [name, path] of ATTACKS) {
  t.test(`a link to ${name} opens nothing and tells nothing`, async (t) => {
    const { status, body } = await raw(path)
    t.equal(status, 404)
    t.match(JSON.parse(body), { error: { code: 'NOT_FOUND', request_id: /^req_/ } })
    t.notMatch(body, /org\/|secret/)
  })
}

t.test('links below the base path work as well', async (t) => {
  t.equal((await raw(`/v1${original}`)).status, 200)
})

t.test('a link lives for the hour that was promised, and for a quarter of an hour more at most', async (t) => {
  t.teardown(() => {
    skewMs = 0
  })
  skewMs = (3600 - 5) * 1000
  t.equal((await get(original)).status, 200, 'good for the hour that was promised')
  skewMs = (3600 + 15 * 60 + 5) * 1000
  t.equal((await get(original)).status, 404)
})

t.test('a repeat under an Idempotency-Key gets links that work', async (t) => {
  t.teardown(() => {
    skewMs = 0
  })
  const LATER_MS = 2 * 3600 * 1000
  const iat = Math.floor((started + LATER_MS) / 1000)
  const { member } = people
  const token = await api.identity.token({ sub: member.id, claims: { iat, exp: iat + 900 } })
  const album = await call(member, 'POST', `/api/orgs/${org}/albums`, { json: { title: 'Summer' } })
  const inAlbum = `/api/orgs/${org}/albums/${album.data.album_id}/media`
  const restored = `/api/media/${org}/${uploaded.data.media_id}/restore`
  for (const [path, json] of [
    [inAlbum, { media_id: uploaded.data.media_id }],
    [restored, undefined],
  ] as const) {
    skewMs = 0
    const headers = { 'idempotency-key': newUuid() }
    const ask = (who: Person) => call(who, 'POST', path, { headers, ...(json && { json }) })
    const first = await ask(member)
    skewMs = LATER_MS
    const again = await ask({ ...member, token })
    t.equal(again.headers.get('idempotency-replayed'), 'true')
    t.equal((await get(pathOf(first.data.original_url))).status, 404)
    for (const url of [again.data.original_url, again.data.variants.hls_master_url])
      t.equal((await get(pathOf(url))).status, 200)
    const without = ({ original_url: _, variants, ...rest }: typeof first.data) => ({
      ...rest,
      names: Object.keys(variants).sort(),
    })
    t.strictSame(without(again.data), without(first.data), 'and all else as it was')
    t.equal(again.data.variants.image_url, null)
  }
})

t.test('links made within a quarter of an hour are the same', async (t) => {
  let now = Date.UTC(2026, 0, 1, 12, 0, 1)
  const links = openLinks({
    baseUrl: 'https://x.example',
    keys: { current: 'k', keys: { k: randomBytes(32).toString('base64url') } },
    clock: { now: () => new Date(now) },
  })
  const key = `org/${orgId}/media/${mediaId}/original`
  const url = links.url(key)
  now += 14 * 60_000
  t.equal(links.url(key), url)
  now += 60_000
  t.not(links.url(key), url)
  t.throws(() => links.url(`org/${orgId}/staging/x`), /only objects of media items/)
})

t.test('both keys open, whichever signs', async (t) => {
  const keys = { a: randomBytes(32).toString('base64url'), b: randomBytes(32).toString('base64url') }
  const { signToken, openToken } = await import('../../../../api/features/media/delivery/token.ts')
  const path = `org/${orgId}/media/${mediaId}/original`
  const prefix = path.replace('original', '')
  for (const current of ['a', 'b']) {
    const signed = signToken({ current, keys }, prefix, 2000)
    t.match(openToken({ current: 'a', keys }, signed, path, 1999), { key: path, name: 'original', expires: 2000 })
    t.equal(openToken({ current: 'a', keys }, signed, path, 2000), undefined)
    t.equal(openToken({ current: 'a', keys: { x: keys.a } }, signed, path, 1999), undefined)
  }
})

t.test('where the store has a door of its own, segments are redirected to it', async (t) => {
  const presigning = {
    ...store,
    presignGet: (key: string, _seconds: number, type: string) =>
      Promise.resolve(`https://store.example/${key}?response-content-type=${type}`),
  }
  const redirecting = await startTestApi(t, { store: presigning })
  const { data } = await redirecting.call(redirecting.people.member, 'POST', `/api/media/${redirecting.org}/single`, {
    form: formOf(BYTES),
  })
  const { original_url: link } = (
    await redirecting.call(redirecting.people.member, 'GET', `/api/media/${redirecting.org}/${data.media_id}`)
  ).data
  const path = pathOf(link)
  const segment = await redirecting.call(undefined, 'GET', path.replace(/original$/, 'v1/360p/00000.ts'))
  t.equal(segment.status, 302)
  t.match(
    segment.headers.get('location'),
    /^https:\/\/store\.example\/org\/.*00000\.ts\?response-content-type=video\/mp2t$/,
  )
  t.equal(segment.headers.get('access-control-allow-origin'), '*')
  const stored = outputPrefix(uuidOf('organization', redirecting.org), uuidOf('media', data.media_id), 1)
  await store.put(`${stored}360p/00000.ts`, randomBytes(2000), { contentType: 'application/octet-stream' })
  const head = await redirecting.call(undefined, 'HEAD', path.replace(/original$/, 'v1/360p/00000.ts'))
  t.strictSame(
    [head.status, head.headers.get('content-length'), head.headers.get('content-type')],
    [200, '2000', 'video/mp2t'],
    'a link is for one method',
  )
  t.equal(
    (await redirecting.call(undefined, 'GET', path)).status,
    200,
    'the original is an attachment, so it is streamed',
  )
})

t.test('a deleted media is gone at once, whatever links are about', async (t) => {
  t.equal((await get(original)).status, 200)
  await sql('update media set deleted_at = now() where id = $1', [mediaId])
  for (const path of [original, master]) t.equal((await get(path)).status, 404)
  await sql('update media set deleted_at = null where id = $1', [mediaId])
  t.equal((await get(original)).status, 200)
})
