import t, { type Test } from 'tap'
import { outputPrefix } from '../../../../lib/contract/object-keys.ts'
import { fakeMp4, formOf, type Person, pathOf, startTestApi, uuidOf } from '../../../support/api.ts'

/** The picture of a deleted media item, for those who may restore it. */

const started = Date.now()
let skewMs = 0
const api = await startTestApi(t, { clock: { now: () => new Date(started + skewMs) } })
const { org, call, store, database } = api
const { owner, admin, member, another, stranger } = api.people
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then((r) => r.rows)

const at = (id: string) => `/api/media/${org}/${id}`
const del = (who: Person, id: string) => call(who, 'DELETE', at(id))
const get = (path: string, headers: Record<string, string> = {}) => call(undefined, 'GET', path, { headers })

/** A converted media item of `member`: its id, and what its links were before anything was deleted. */
async function converted(): Promise<{ id: string; links: string[]; thumb: string }> {
  const form = formOf(fakeMp4(1000), 'clip.mp4')
  const id: string = (await call(member, 'POST', `/api/media/${org}/single`, { form })).data.media_id
  const prefix = outputPrefix(orgId, uuidOf('media', id), 1)
  for (const [name, contentType] of [
    ['thumb.webp', 'image/webp'],
    ['large.webp', 'image/webp'],
    ['master.m3u8', 'application/vnd.apple.mpegurl'],
  ] as const)
    await store.put(`${prefix}${name}`, name, { contentType })
  await sql(
    `update media set output_prefix = $2, thumb_file = 'thumb.webp', webp_file = 'large.webp', hls_master = 'master.m3u8',
      upload_status = 'completed' where id = $1`,
    [uuidOf('media', id), prefix],
  )
  const { original_url, variants } = (await call(member, 'GET', at(id))).data
  const urls = [original_url, variants.image_thumb_url, variants.image_webp_url, variants.hls_master_url]
  return { id, links: urls.map(pathOf), thumb: `${prefix}thumb.webp` }
}

/** The link in the trash of a person; undefined if it is not there. */
async function linkFor(who: Person, id: string): Promise<string | null | undefined> {
  const { data } = await call(who, 'GET', `/api/media/${org}/trash?limit=100`)
  const url = data?.media.find((m: { media_id: string }) => m.media_id === id)?.thumbnail_url
  return typeof url === 'string' ? pathOf(url) : url
}

const thumbOf = async (who: Person, id: string) => String(await linkFor(who, id))

t.test('the trash has a link to the thumbnail for those who may restore it', async (t: Test) => {
  const { id } = await converted()
  await del(member, id)
  for (const who of [member, admin, owner]) {
    const answer = await get(await thumbOf(who, id))
    t.match([answer.status, String(answer.body)], [200, 'thumb.webp'])
    t.equal(answer.headers.get('content-type'), 'image/webp')
    t.match(answer.headers.get('cache-control'), /^private, max-age=\d+, immutable$/, 'as that of any variant')
  }
  for (const who of [another, stranger]) t.equal(await linkFor(who, id), undefined)
})

t.test(
  'an uploader whose media item an administrator deleted sees that it is there, and no picture',
  async (t: Test) => {
    const { id } = await converted()
    await del(admin, id)
    t.equal(await linkFor(member, id), null)
    t.equal((await get(await thumbOf(owner, id))).status, 200)
  },
)

t.test('without a thumbnail there is no link', async (t: Test) => {
  const { id } = await converted()
  await sql('update media set thumb_file = null where id = $1', [uuidOf('media', id)])
  await del(member, id)
  t.equal(await linkFor(member, id), null)
})

t.test('the link opens the thumbnail alone, and no other link works', async (t: Test) => {
  const { id, links } = await converted()
  const other = await converted()
  await del(member, id)
  await del(member, other.id)
  const link = await thumbOf(member, id)
  for (const path of links) t.equal((await get(path)).status, 404, path)
  const [, , token] = link.split('/')
  for (const path of [...links, ...other.links, `/d/x/${other.thumb}`]) {
    const [, , given, ...key] = path.split('/')
    if (link.endsWith(key.join('/'))) continue
    t.equal((await get(`/d/${token}/${key.join('/')}`)).status, 404, key.join('/'))
    t.not(token, given)
  }
})

t.test('the link ends with the restore', async (t: Test) => {
  const { id, links } = await converted()
  await del(member, id)
  const link = await thumbOf(member, id)
  t.equal((await call(member, 'POST', `${at(id)}/restore`)).status, 200)
  t.equal((await get(link)).status, 404)
  for (const path of links) t.equal((await get(path)).status, 200, path)
})

t.test('the link ends with the time to restore, and with the purge', async (t: Test) => {
  const [late, purging] = [await converted(), await converted()]
  for (const { id } of [late, purging]) await del(member, id)
  const links = [await thumbOf(member, late.id), await thumbOf(member, purging.id)]
  for (const link of links) t.equal((await get(link)).status, 200)
  await sql(`update media set deleted_at = deleted_at - interval '30 days' where id = $1`, [uuidOf('media', late.id)])
  await sql('update media set purging_at = now() where id = $1', [uuidOf('media', purging.id)])
  for (const link of links) {
    t.equal((await get(link)).status, 404)
    t.equal((await get(link, { 'if-none-match': '*' })).status, 404)
  }
})

t.test('the link expires as all links do', async (t: Test) => {
  t.teardown(() => {
    skewMs = 0
  })
  const { id } = await converted()
  await del(member, id)
  const link = await thumbOf(member, id)
  skewMs = (3600 - 5) * 1000
  t.equal((await get(link)).status, 200)
  skewMs = (3600 + 15 * 60 + 5) * 1000
  t.equal((await get(link)).status, 404)
})
