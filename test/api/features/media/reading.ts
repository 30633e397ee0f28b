import t from 'tap'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import type { VideoManifest } from '../../../../lib/contract/manifest.ts'
import { outputPrefix } from '../../../../lib/contract/object-keys.ts'
import { fakeMp4, formOf, pathOf, startTestApi, uuidOf } from '../../../support/api.ts'

let still: Date | undefined
const api = await startTestApi(t, { clock: { now: () => still ?? new Date() } })
const { people, org, otherOrg, call } = api
const sql = (text: string, values: unknown[] = []) => api.database.admin.query(text, values).then((r) => r.rows)
const orgId = uuidOf('organization', org)

interface Made {
  createdAt?: string
  mimeType?: string
  uploader?: Uuid
  organization?: Uuid
}
async function aMedia(o: Made = {}): Promise<string> {
  const id = newUuid()
  await sql(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, created_at)
     values ($1, $2, $3, 'f', $4, $5, 1, coalesce($6, now()))`,
    [
      id,
      o.organization ?? orgId,
      o.uploader ?? people.member.id,
      o.mimeType ?? 'video/mp4',
      (o.mimeType ?? 'video/mp4').split('/')[0],
      o.createdAt ?? null,
    ],
  )
  return formatId('media', id)
}

const manifest: VideoManifest = {
  version: 1,
  id: 'm',
  type: 'video',
  createdAt: '2026-01-01T00:00:00.000Z',
  accelerator: 'cpu',
  source: {
    container: 'mov',
    videoCodec: 'h264',
    audioCodec: null,
    width: 1080,
    height: 1920,
    rotation: 270,
    durationSec: 12.5,
    frameRate: 30,
    hdr: false,
    variableFrameRate: false,
    capturedAt: '2019-07-01T12:00:00+02:00',
    camera: { make: 'Apple', model: 'iPhone 15' },
    location: { latitude: 48.1, longitude: 11.5 },
  },
  hls: {
    master: 'master.m3u8',
    segmentSeconds: 6,
    durationSec: 12.5,
    renditions: [
      {
        name: '360p',
        width: 360,
        height: 640,
        bandwidth: 900_000,
        averageBandwidth: 700_000,
        codecs: 'avc1.64001e',
        frameRate: 30,
        playlist: '360p.m3u8',
        segments: 3,
        bytes: 1_000_000,
      },
    ],
  },
  encode: { wallSeconds: 3, speed: 4 },
}

t.test('a media that is being converted shows its original and how far it is', async (t) => {
  const id = await aMedia()
  const progress = { percent: 40, speed: '1.8x', eta_sec: 12, stage: 'Encoding' }
  await sql(`update media set conversion_state = 'running', conversion_progress = $2, version = 2 where id = $1`, [
    uuidOf('media', id),
    progress,
  ])
  const { status, data } = await call(people.another, 'GET', `/api/media/${org}/${id}`)
  t.equal(status, 200)
  t.match(data, {
    media_id: id,
    upload_status: 'processing',
    expires_in: 3600,
    original_url: /^https:\/\/keepsake\.example\/v1\/d\/a\.[0-9a-z]+\.[A-Za-z0-9_-]{22}\/org\/.*\/original$/,
    conversion_progress: progress,
  })
  t.strictSame(data.variants, {
    image_url: null,
    image_webp_url: null,
    hls_master_url: null,
    image_thumb_url: null,
    live_photo_video_url: null,
    asset_identifier: null,
  })
})

t.test('a stream is shown as soon as it can be played, also while it is being converted', async (t) => {
  const id = await aMedia()
  const uuid = uuidOf('media', id)
  const prefix = outputPrefix(orgId, uuid, 1)
  await sql(`update media set output_prefix = $2, hls_master = 'master.m3u8' where id = $1`, [uuid, prefix])
  const { data } = await call(people.member, 'GET', `/api/media/${org}/${id}`)
  t.equal(data.upload_status, 'processing')
  t.ok(pathOf(data.variants.hls_master_url).endsWith(`/${prefix}master.m3u8`))
})

t.test('metadata tell the place to the uploader and to administrators only', async (t) => {
  const id = await aMedia()
  await sql(
    `update media set manifest = $2, captured_at = '2019-07-01T12:00:00+02:00', upload_status = 'completed',
     conversion_state = 'succeeded', conversion_attempts = 1, conversion_started_at = now(), conversion_finished_at = now() where id = $1`,
    [uuidOf('media', id), manifest],
  )
  const path = `/api/media/${org}/${id}/metadata`
  const seen = await call(people.member, 'GET', path)
  t.match(seen.data, {
    media_id: id,
    captured_at: '2019-07-01T10:00:00.000Z',
    width: 1080,
    height: 1920,
    duration_sec: 12.5,
    orientation: 6,
    camera: { make: 'Apple', model: 'iPhone 15' },
    location: { latitude: 48.1, longitude: 11.5 },
    conversion: { state: 'succeeded', attempts: 1, error: null, progress: null, renditions: [{ name: '360p' }] },
  })
  for (const who of [people.owner, people.admin]) t.ok((await call(who, 'GET', path)).data.location)
  const other = await call(people.another, 'GET', path)
  t.equal(other.data.location, null)
  t.equal(other.data.camera.model, 'iPhone 15')
})

t.test('metadata of a media that has just arrived are null, not missing', async (t) => {
  const { data } = await call(people.member, 'GET', `/api/media/${org}/${await aMedia()}/metadata`)
  t.match(data, {
    captured_at: null,
    width: null,
    orientation: null,
    camera: { make: null, model: null },
    location: null,
    conversion: { state: 'queued', attempts: 0, started_at: null, renditions: [] },
  })
})

t.test('a failed conversion says why, and the original stays', async (t) => {
  const { data } = await call(people.member, 'POST', `/api/media/${org}/single`, { form: formOf(fakeMp4(2000)) })
  const error = { code: 'CORRUPT_INPUT', message: 'The file ends early' }
  await sql(
    `update media set upload_status = 'failed', conversion_state = 'failed', conversion_error = $2 where id = $1`,
    [uuidOf('media', data.media_id), error],
  )
  const metadata = await call(people.member, 'GET', `/api/media/${org}/${data.media_id}/metadata`)
  t.strictSame(metadata.data.conversion.error, error)
  const shown = await call(people.member, 'GET', `/api/media/${org}/${data.media_id}`)
  t.equal(shown.data.upload_status, 'failed')
  t.equal((await call(undefined, 'GET', pathOf(shown.data.original_url))).status, 200)
})

t.test('entity tags change with the media, and spare an answer that would be the same', async (t) => {
  const id = await aMedia()
  // Links change with the quarter of an hour, and entity tags with them.
  still = new Date()
  t.teardown(() => {
    still = undefined
  })
  for (const path of [`/api/media/${org}/${id}`, `/api/media/${org}/${id}/metadata`, `/api/media/${org}?limit=1`]) {
    const first = await call(people.member, 'GET', path)
    const tag = first.headers.get('etag') ?? ''
    t.match(tag, /^W\//)
    const again = await call(people.member, 'GET', path, { headers: { 'if-none-match': tag } })
    t.strictSame([again.status, again.body.length], [304, 0])
    const foreign = await call(people.another, 'GET', path, { headers: { 'if-none-match': tag } })
    t.equal(foreign.status, 200, 'a tag is one person’s')
    await sql('update media set asset_identifier = $2, conversion_attempts = conversion_attempts + 1 where id = $1', [
      uuidOf('media', id),
      path,
    ])
    t.equal((await call(people.member, 'GET', path, { headers: { 'if-none-match': tag } })).status, 200)
  }
})

t.test('a list goes on page by page, each media once, however many have one time of making', async (t) => {
  await sql('delete from media')
  // Same millisecond, other microseconds; and three with the very same time.
  const times = ['00.000001', '00.000002', '00.000003', '00.000003', '00.000003', '00.001', '01', '02', '03']
  for (const second of times) await aMedia({ createdAt: `2026-01-01T00:00:${second}Z` })
  const order = (await sql('select id from media order by created_at desc, id desc')).map((r) =>
    formatId('media', r.id),
  )
  for (const limit of [1, 2, 4, 9, 100]) {
    const seen: string[] = []
    let cursor: string | null = ''
    for (let pages = 0; cursor !== null && pages < 20; pages++) {
      const query: string = `limit=${limit}${cursor && `&cursor=${cursor}`}`
      const { status, data } = await call(people.member, 'GET', `/api/media/${org}?${query}`)
      t.equal(status, 200)
      t.equal(data.has_more, data.next_cursor !== null)
      seen.push(...data.media.map((m: { media_id: string }) => m.media_id))
      cursor = data.next_cursor
    }
    t.strictSame(seen, order, `pages of ${limit}`)
  }
})

t.test('a list can be of one type or of one kind', async (t) => {
  await sql('delete from media')
  for (const mimeType of ['video/mp4', 'video/quicktime', 'image/jpeg', 'image/png']) await aMedia({ mimeType })
  const types = async (filter: string) => {
    const { data } = await call(people.member, 'GET', `/api/media/${org}?mime_type=${encodeURIComponent(filter)}`)
    return data.media.map((m: { mime_type: string }) => m.mime_type).sort()
  }
  t.strictSame(await types('video/*'), ['video/mp4', 'video/quicktime'])
  t.strictSame(await types('image/png'), ['image/png'])
  t.strictSame(await types('IMAGE/*'), ['image/jpeg', 'image/png'])
  t.strictSame(await types('audio/*'), [])
  for (const bad of ['%', 'video', '*/*', "video/' or 1=1", 'video/%25']) {
    const answer = await call(people.member, 'GET', `/api/media/${org}?mime_type=${encodeURIComponent(bad)}`)
    t.strictSame([bad, answer.status], [bad, 400])
  }
})

t.test('what is deleted is not there', async (t) => {
  const id = await aMedia()
  await sql('update media set deleted_at = now() where id = $1', [uuidOf('media', id)])
  for (const path of [`/${id}`, `/${id}/metadata`]) {
    t.equal((await call(people.member, 'GET', `/api/media/${org}${path}`)).status, 404)
  }
  const { data } = await call(people.member, 'GET', `/api/media/${org}?limit=100`)
  t.notOk(data.media.some((m: { media_id: string }) => m.media_id === id))
})

t.test('every member sees, and an organization shows its own alone', async (t) => {
  const id = await aMedia()
  const foreign = await aMedia({ organization: uuidOf('organization', otherOrg), uploader: people.stranger.id })
  for (const path of [`/api/media/${org}`, `/api/media/${org}/${id}`, `/api/media/${org}/${id}/metadata`]) {
    for (const who of [people.owner, people.admin, people.member, people.another]) {
      t.equal((await call(who, 'GET', path)).status, 200)
    }
  }
  const list = await call(people.stranger, 'GET', `/api/media/${otherOrg}`)
  t.strictSame(
    list.data.media.map((m: { media_id: string }) => m.media_id),
    [foreign],
  )
  t.equal((await call(people.member, 'GET', `/api/media/${orgId}/${uuidOf('media', id)}`)).status, 200, 'bare UUIDs')
})
