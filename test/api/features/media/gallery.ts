import t from 'tap'
import { sql as drizzleSql } from '../../../../api/db/orm.ts'
import { CONVERSIONS } from '../../../../api/features/media/conversion/kind.ts'
import { completeRun } from '../../../../api/worker/runs/commands.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import type { ImageManifest, VideoManifest } from '../../../../lib/contract/manifest.ts'
import { outputPrefix } from '../../../../lib/contract/object-keys.ts'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { aManifest } from '../../../support/conversion-world.ts'

const api = await startTestApi(t)
const { people, org, otherOrg, call } = api
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => api.database.admin.query(text, values).then((r) => r.rows)

interface Made {
  created?: string
  captured?: string | null
  type?: string
  organization?: Uuid
}
async function aMedia({
  created,
  captured = null,
  type = 'image/jpeg',
  organization = orgId,
}: Made = {}): Promise<Uuid> {
  const id = newUuid()
  await sql(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, created_at, captured_at)
     values ($1, $2, $3, 'f', $4, $5, 1, coalesce($6::timestamptz, now()), $7)`,
    [id, organization, people.member.id, type, type.split('/')[0], created ?? null, captured],
  )
  return id
}
const clear = () => sql('delete from media')
const list = (query: string) => call(people.another, 'GET', `/api/media/${org}?${query}`)
const months = async (where = org, who = people.another) =>
  (await call(who, 'GET', `/api/media/${where}/months`)).data.months as { month: string; count: number }[]
const wire = (...ids: Uuid[]) => ids.map((id) => formatId('media', id))

async function pagesOf(query: string): Promise<string[]> {
  const seen: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { data } = await list(`${query}${cursor && `&cursor=${cursor}`}`)
    seen.push(...data.media.map((m: { media_id: string }) => m.media_id))
    cursor = data.next_cursor
  }
  return seen
}

const image = (id: Uuid, change: Partial<ImageManifest['source']> = {}): ImageManifest => {
  const file = { file: 'image.webp', width: 2048, height: 1536, bytes: 1000 }
  return {
    version: 1,
    id: formatId('media', id),
    createdAt: '2026-05-01T10:00:00.000Z',
    type: 'image',
    source: {
      format: 'heif',
      width: 3024,
      height: 4032,
      orientation: 6,
      isAnimated: false,
      capturedAt: '2019-12-31T23:30:00.250-02:00',
      camera: { make: 'Apple', model: 'iPhone 15' },
      location: { latitude: 48.1, longitude: 11.5 },
      exif: { ExposureTime: '1/120', ISO: '64' },
      ...change,
    },
    images: { jpeg: null, webp: file, thumb: { ...file, file: 'thumb.webp' }, placeholder: 'AAAA' },
    encode: { wallSeconds: 1 },
  }
}
const complete = (id: Uuid, manifest: ImageManifest | VideoManifest) =>
  completeRun(api.database.worker, CONVERSIONS, { id, generation: 1 }, { prefix: outputPrefix(orgId, id, 1), manifest })

t.test('a gallery is sorted by capture time, media without one by their upload, and pages are the whole', async (t) => {
  await clear()
  const old = await aMedia({ captured: '2001-05-05T05:05:05.123456Z', created: '2026-01-05T00:00:00Z' })
  const [a, b] = [
    await aMedia({ captured: '2020-01-01T00:00:00.000001Z', created: '2026-01-04T00:00:00Z' }),
    await aMedia({ captured: '2020-01-01T00:00:00.000002Z', created: '2026-01-03T00:00:00Z' }),
  ]
  const unknown = await aMedia({ created: '2022-01-02T00:00:00Z', type: 'video/mp4' })
  const same = await aMedia({ captured: '2022-01-02T00:00:00Z', created: '2026-01-01T00:00:00Z' })
  const [first, second] = [same, unknown].sort().reverse() as [Uuid, Uuid]
  const byCapture = wire(first, second, b, a, old)
  t.strictSame(await pagesOf('sort=captured_at&limit=100'), byCapture)
  for (const limit of [1, 2, 3]) t.strictSame(await pagesOf(`sort=captured_at&limit=${limit}`), byCapture)
  const byUpload = wire(old, a, b, same, unknown)
  t.strictSame(await pagesOf('limit=2'), byUpload)
  t.strictSame(await pagesOf('sort=created_at&limit=2'), byUpload)
  const images = byCapture.filter((id) => id !== formatId('media', unknown))
  t.strictSame(await pagesOf('sort=captured_at&limit=2&mime_type=image/*'), images)
  t.strictSame(await pagesOf('sort=captured_at&limit=1&mime_type=image/jpeg'), images)
  t.strictSame(await pagesOf('sort=captured_at&limit=2&mime_type=video/mp4'), wire(unknown))
  const { media } = (await list('sort=captured_at')).data
  t.match(media.at(-1), { captured_at: '2001-05-05T05:05:05.123Z', created_at: '2026-01-05T00:00:00.000Z' })
  t.equal(media.find((m: { media_id: string }) => m.media_id === formatId('media', unknown)).captured_at, null)
})

t.test('a cursor belongs to its sort, and a sort that there is not is refused', async (t) => {
  await clear()
  for (let n = 0; n < 3; n++) await aMedia()
  const cursors = {
    created_at: (await list('limit=1')).data.next_cursor,
    captured_at: (await list('limit=1&sort=captured_at')).data.next_cursor,
  }
  t.match(await list(`limit=1&sort=captured_at&cursor=${cursors.created_at}`), { status: 400, code: 'INVALID_CURSOR' })
  t.match(await list(`limit=1&cursor=${cursors.captured_at}`), { status: 400, code: 'INVALID_CURSOR' })
  t.equal((await list(`limit=1&sort=created_at&cursor=${cursors.created_at}`)).status, 200)
  for (const sort of ['', 'id', 'captured_at desc', 'CAPTURED_AT', 'toString']) {
    t.match(await list(`sort=${sort}`), { status: 400, code: 'VALIDATION_ERROR' })
  }
})

t.test('months are those of UTC, newest first, and each organization has its own', async (t) => {
  await clear()
  t.strictSame(await months(), [])
  await aMedia({ captured: '2026-01-01T00:30:00+02:00' })
  await aMedia({ captured: '2025-12-31T22:00:00-05:00' })
  await aMedia({ captured: '2025-12-01T00:00:00Z' })
  await aMedia({ created: '2024-02-29T23:59:59.999999Z' })
  await aMedia({ captured: '0990-07-01T00:00:00Z' })
  await aMedia({ captured: '2025-12-05T00:00:00Z', organization: uuidOf('organization', otherOrg) })
  const expected = [
    { month: '2026-01', count: 1 },
    { month: '2025-12', count: 2 },
    { month: '2024-02', count: 1 },
    { month: '0990-07', count: 1 },
  ]
  t.strictSame(await months(), expected)
  await sql('select fold_media_months($1)', [orgId])
  t.strictSame(await months(), expected)
  t.strictSame(await months(otherOrg, people.stranger), [{ month: '2025-12', count: 1 }])
  t.match(await call(people.stranger, 'GET', `/api/media/${org}/months`), { status: 404 })
})

t.test('months follow the trash, the restore, the purge, the pairing and the capture time', async (t) => {
  await clear()
  const video = await aMedia({ created: '2026-03-01T00:00:00Z', type: 'video/mp4' })
  const photo = await aMedia({ created: '2026-03-01T00:00:00Z' })
  const count = async (change: string, ids: Uuid[] = [video, photo]) => {
    await sql(change, [ids])
    return (await months()).map((m) => `${m.month} ${m.count}`)
  }
  t.strictSame(await count('select $1::uuid[]'), ['2026-03 2'])
  t.strictSame(await count(`update media set conversion_attempts = 5 where id = any($1)`), ['2026-03 2'])
  t.strictSame(
    await count(
      `update media m set paired_media_id = o.id from media o where m.id <> o.id and m.id = any($1) and o.id = any($1)`,
    ),
    ['2026-03 1'],
    'a Live Photo counts once',
  )
  t.strictSame(await count('update media set deleted_at = now() where id = any($1)'), [])
  t.strictSame(await count('update media set deleted_at = null where id = any($1)'), ['2026-03 1'])
  t.ok(await complete(photo, image(photo)))
  t.strictSame(await count('select $1::uuid[]'), ['2020-01 1'])
  t.strictSame(await count('delete from media where id = any($1)'), [])
  t.equal((await sql('select from media_month_changes')).length > 0, true)
})

t.test('counts are exact after changes at once, folded or not, and those that roll back', async (t) => {
  await clear()
  /** What happens to one of the media items of a person after the n-th upload. */
  const CHANGES = [
    'select fold_media_months(org_id) from media where id = $1',
    'update media set deleted_at = case when deleted_at is null then now() end where id = $1',
    `update media set captured_at = captured_at + interval '40 days' where id = $1`,
    'delete from media where id = $1',
  ]
  const worker = async (seed: number) => {
    const mine: Uuid[] = []
    for (let n = 0; n < 30; n++) {
      const month = ((seed * 7 + n) % 12) + 1
      mine.push(await aMedia({ captured: `2026-${String(month).padStart(2, '0')}-15T00:00:00Z` }))
      await sql(CHANGES[n % CHANGES.length] as string, [mine[(n * 5) % mine.length]])
      const fails = sql('with gone as (delete from media where id = $1 returning 1) select 1 / 0 from gone', [mine[n]])
      await fails.catch((error: Error) => t.match(error.message, /division by zero/))
    }
  }
  await Promise.all([1, 2, 3, 4].map(worker))
  const truth = await sql(
    `select to_char(taken_at at time zone 'UTC', 'YYYY-MM') as month, count(*)::int as count from media
     where org_id = $1 and listed group by 1 order by 1 desc`,
    [orgId],
  )
  t.ok(truth.length > 5)
  t.strictSame(await months(), truth)
  await sql('select fold_media_months($1)', [orgId])
  t.strictSame(await months(), truth)
  t.equal((await sql('select from media_month_changes where org_id = $1', [orgId])).length, 0)
})

t.test('a fold that another transaction is at does not wait, and loses nothing', async (t) => {
  await clear()
  const [one, two] = [await api.database.admin.connect(), await api.database.admin.connect()]
  try {
    await aMedia({ captured: '2026-05-05T00:00:00Z' })
    await one.query('begin')
    await one.query('select fold_media_months($1)', [orgId])
    await aMedia({ captured: '2026-05-06T00:00:00Z' })
    await two.query(`set lock_timeout = '100ms'`)
    await two.query('select fold_media_months($1)', [orgId])
    t.strictSame(await months(), [{ month: '2026-05', count: 2 }])
    await one.query('rollback')
    t.strictSame(await months(), [{ month: '2026-05', count: 2 }])
    await two.query('select fold_media_months($1)', [orgId])
    t.strictSame(await months(), [{ month: '2026-05', count: 2 }])
  } finally {
    one.release()
    two.release(true)
  }
})

t.test('only the triggers count', async (t) => {
  for (const database of [api.database.db, api.database.worker]) {
    for (const text of [
      `insert into media_month_changes values ('${orgId}', '2026-01-01', 1)`,
      'update media_months set media_count = 0',
      'delete from media_months',
      `select fold_media_months('${orgId}')`,
    ]) {
      const attempt = database.inTransaction({ org: orgId }, (tx) => tx.execute(drizzleSql.raw(text)))
      await t.rejects(attempt, { cause: { message: /permission denied/ } }, text)
    }
  }
  const seen = await api.database.db.read({ org: uuidOf('organization', otherOrg) }, (tx) =>
    tx.execute(drizzleSql`select from media_months where org_id = ${orgId}`),
  )
  t.equal(seen.rows.length, 0)
})

t.test('words below an organization are no media items', async (t) => {
  for (const word of ['trash', 'highlights', 'upload', 'single', 'merge', 'months']) {
    for (const path of [`${word}/metadata`, ...(['trash', 'highlights', 'months'].includes(word) ? [] : [word])]) {
      t.match(await call(people.member, 'GET', `/api/media/${org}/${path}`), { status: /40[45]/ }, path)
    }
  }
})

t.test('metadata of a picture are whole, and the place is for its uploader and administrators', async (t) => {
  const id = await aMedia()
  await complete(id, image(id))
  const get = async (who = people.member) =>
    (await call(who, 'GET', `/api/media/${org}/${formatId('media', id)}/metadata`)).data
  const { conversion, ...rest } = await get()
  t.strictSame(rest, {
    media_id: formatId('media', id),
    captured_at: '2020-01-01T01:30:00.250Z',
    width: 3024,
    height: 4032,
    duration_sec: null,
    live_photo_duration_sec: null,
    orientation: 6,
    camera: { make: 'Apple', model: 'iPhone 15' },
    location: { latitude: 48.1, longitude: 11.5 },
    exif: { ExposureTime: '1/120', ISO: '64' },
  })
  t.match(conversion, { state: 'succeeded', error: null, renditions: [] })
  for (const who of [people.owner, people.admin]) t.ok((await get(who)).location)
  const other = await get(people.another)
  t.equal(other.location, null)
  t.strictSame(other.exif, rest.exif)
})

t.test('metadata of a video are whole, whichever way it was held', async (t) => {
  for (const [rotation, orientation] of [
    [0, 1],
    [90, 8],
    // As phones that are held upright record.
    [270, 6],
    [-90, 6],
    [180, 3],
    [450, 8],
    [45, null],
  ] as const) {
    const id = await aMedia({ type: 'video/mp4' })
    const manifest = aManifest(id)
    // The sound goes on behind the last picture.
    const hls = { ...manifest.hls, durationSec: 14.5 }
    await complete(id, {
      ...manifest,
      hls,
      source: { ...manifest.source, rotation, location: { latitude: -1, longitude: 2 } },
    })
    const get = async (who = people.member) =>
      (await call(who, 'GET', `/api/media/${org}/${formatId('media', id)}/metadata`)).data
    const { source } = manifest
    t.match(await get(), {
      width: source.width,
      height: source.height,
      duration_sec: 14.5,
      orientation,
      location: { latitude: -1, longitude: 2 },
      exif: {},
    })
    t.equal((await get(people.another)).location, null)
  }
})

t.test('a time that the API cannot show is left out, and the conversion succeeds', async (t) => {
  for (const capturedAt of ['9999-12-31T23:59:59-12:00', '0001-01-01T00:00:00+12:00', '0050-01-01T00:00:00Z', null]) {
    const id = await aMedia()
    t.ok(await complete(id, image(id, { capturedAt })))
    const { status, data } = await call(people.member, 'GET', `/api/media/${org}/${formatId('media', id)}`)
    t.strictSame([status, data.captured_at], [200, null])
  }
})

t.test('why a conversion failed is said in words, and what the cluster called it is not', async (t) => {
  const id = await aMedia()
  const error = { code: 'INTERNAL', message: 'The conversion failed for a reason unrelated to the file' }
  await sql(
    `update media set upload_status = 'failed', conversion_state = 'failed', conversion_error = $2 where id = $1`,
    [id, { ...error, reason: 'StoreUnavailable' }],
  )
  const { data } = await call(people.member, 'GET', `/api/media/${org}/${formatId('media', id)}/metadata`)
  t.strictSame(data.conversion.error, error)
})
