import { randomBytes, randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { recordMedia } from '../../../../api/features/media/commands.ts'
import { CONVERSIONS } from '../../../../api/features/media/conversion/kind.ts'
import { livePhotoOf, lockNamesOf, lookupsOf } from '../../../../api/features/media/pairing-plan.ts'
import { lockPairing } from '../../../../api/features/media/pairing-queries.ts'
import { changesOf } from '../../../../api/requests/change.ts'
import { completeRun, recordPlayable } from '../../../../api/worker/runs/commands.ts'
import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { outputPrefix } from '../../../../lib/contract/object-keys.ts'
import { fakeMp4, formOf, type Person, pathOf, startTestApi, uuidOf } from '../../../support/api.ts'
import { aManifest } from '../../../support/conversion-world.ts'
import { eventually } from '../../../support/eventually.ts'

const api = await startTestApi(t)
const { people, org, otherOrg, call } = api
const orgId = uuidOf('organization', org)
const sql = (text: string, values: unknown[] = []) => api.database.admin.query(text, values).then((r) => r.rows)

type Kind = 'image' | 'video'
interface Keys {
  pair?: string
  asset?: string
}
const fakeJpeg = () => Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), randomBytes(60)])
const bytesOf = (kind: Kind) => (kind === 'image' ? fakeJpeg() : fakeMp4(64))
const fieldsOf = ({ pair, asset }: Keys) => ({
  ...(pair && { live_photo_pair_id: pair }),
  ...(asset && { asset_identifier: asset }),
})

const single = (kind: Kind, keys: Keys, who: Person = people.member, where = org) =>
  call(who, 'POST', `/api/media/${where}/single`, { form: formOf(bytesOf(kind), `a.${kind}`, fieldsOf(keys)) })

const start = (kind: Kind, keys: Keys, more: object = {}) =>
  call(people.member, 'POST', `/api/media/${org}/upload`, {
    json: {
      filename: 'a',
      mime_type: kind === 'image' ? 'image/jpeg' : 'video/mp4',
      file_size_bytes: 64,
      chunk_size_bytes: 64,
      ...fieldsOf(keys),
      ...more,
    },
  })

async function inChunks(kind: Kind, keys: Keys) {
  const bytes = bytesOf(kind)
  const started = await start(kind, keys)
  const upload_id = started.data.upload_id as string
  await call(people.member, 'PUT', `/api/media/${org}/upload/${upload_id}/0`, { bytes })
  return () => call(people.member, 'POST', `/api/media/${org}/merge`, { json: { upload_id } })
}

const rowOf = async (id: string) => (await sql('select * from media where id = $1', [uuidOf('media', id)]))[0]
const eventsOf = (ids: string[]) =>
  sql(
    `select aggregate_id, aggregate_version, payload from outbox where type = 'LivePhotoPaired' and aggregate_id = any($1)`,
    [ids.map((id) => uuidOf('media', id))],
  )

/** That two media items are one Live Photo, announced once with the version of the image's row. */
async function isLivePhoto(t: Test, image: string, video: string, asset: string | null) {
  const [i, v] = [await rowOf(image), await rowOf(video)]
  t.equal(i.paired_media_id, v.id)
  t.equal(v.paired_media_id, i.id)
  t.strictSame([i.version, v.version], [2, 2])
  t.strictSame([i.listed, v.listed], [true, false])
  t.strictSame(await eventsOf([image, video]), [
    {
      aggregate_id: i.id,
      aggregate_version: 2,
      payload: { media_id: image, asset_identifier: asset, paired_media_id: video },
    },
  ])
}
async function isAlone(t: Test, ...ids: string[]) {
  for (const id of ids) t.match(await rowOf(id), { paired_media_id: null, listed: true, version: 1 })
  t.strictSame(await eventsOf(ids), [])
}

/** As it comes to be recorded, without its keys. */
const aVideo = () => ({
  id: newUuid(),
  orgId,
  uploaderId: people.member.id,
  originalFilename: 'v',
  mimeType: 'video/mp4',
  kind: 'video' as const,
  fileSizeBytes: 1,
  sha256: null,
})

const SENT: [name: string, ways: ['single' | 'chunks', 'single' | 'chunks']][] = [
  ['whole', ['single', 'single']],
  ['in chunks', ['chunks', 'chunks']],
  ['one whole and one in chunks', ['single', 'chunks']],
  ['one in chunks and one whole', ['chunks', 'single']],
]
const send = async (way: 'single' | 'chunks', kind: Kind, keys: Keys) => {
  const answer = await (way === 'single' ? single(kind, keys) : (await inChunks(kind, keys))())
  if (answer.status !== 201) throw new Error(`${way} of a ${kind}: ${answer.status} ${answer.code}`)
  return answer.data.media_id as string
}

for (const [name, [first, second]] of SENT) {
  for (const order of [
    ['image', 'video'],
    ['video', 'image'],
  ] as const) {
    for (const key of ['pair', 'asset', 'both'] as const) {
      t.test(`${name}, the ${order[0]} first, known by ${key}`, async (t) => {
        const keys: Keys = {
          ...(key !== 'asset' && { pair: randomUUID() }),
          ...(key !== 'pair' && { asset: `asset ${randomUUID()}` }),
        }
        const a = await send(first, order[0], keys)
        await isAlone(t, a)
        const b = await send(second, order[1], keys)
        const [image, video] = order[0] === 'image' ? [a, b] : [b, a]
        await isLivePhoto(t, image, video, keys.asset ?? null)
      })
    }
  }
}

const [P, Q, A, B] = ['P', 'Q', 'A', 'B'].map(() => randomUUID()) as [string, string, string, string]
/** Each with an organization's worth of keys of its own: `salted` makes them differ from case to case. */
const CASES: [name: string, files: [Kind, Keys][], pairs: [image: number, video: number][]][] = [
  [
    'no keys',
    [
      ['image', {}],
      ['video', {}],
    ],
    [],
  ],
  [
    'other keys',
    [
      ['image', { pair: P, asset: A }],
      ['video', { pair: Q, asset: B }],
    ],
    [],
  ],
  [
    'two of one kind',
    [
      ['image', { asset: A }],
      ['image', { asset: A }],
    ],
    [],
  ],
  [
    'the pair id wins over the identifier',
    [
      ['video', { asset: A }],
      ['video', { pair: P }],
      ['image', { pair: P, asset: A }],
    ],
    [[2, 1]],
  ],
  [
    'another pair id forbids what the identifier would join',
    [
      ['image', { pair: P, asset: A }],
      ['video', { pair: Q, asset: A }],
    ],
    [],
  ],
  [
    'the identifier joins where only one has a pair id',
    [
      ['image', { pair: P, asset: A }],
      ['video', { asset: A }],
    ],
    [[0, 1]],
  ],
  [
    'the identifier joins where only the other has a pair id',
    [
      ['image', { asset: A }],
      ['video', { pair: P, asset: A }],
    ],
    [[0, 1]],
  ],
  [
    'the pair id joins what has two identifiers',
    [
      ['image', { pair: P, asset: A }],
      ['video', { pair: P, asset: B }],
    ],
    [[0, 1]],
  ],
  [
    'a paired half stays with its first',
    [
      ['image', { pair: P, asset: A }],
      ['video', { asset: A }],
      ['video', { pair: P }],
    ],
    [[0, 1]],
  ],
  [
    'a phone that exports twice',
    [
      ['image', { asset: A }],
      ['video', { asset: A }],
      ['image', { asset: A }],
      ['video', { asset: A }],
    ],
    [
      [0, 1],
      [2, 3],
    ],
  ],
  [
    'the oldest that waits is taken',
    [
      ['image', { asset: A }],
      ['image', { asset: A }],
      ['video', { asset: A }],
    ],
    [[0, 2]],
  ],
  [
    'one that may not be joined does not hide one that may',
    [
      ['video', { pair: Q, asset: A }],
      ['video', { asset: A }],
      ['image', { pair: P, asset: A }],
    ],
    [[2, 1]],
  ],
]
for (const [name, files, pairs] of CASES) {
  t.test(name, async (t) => {
    const salt = randomUUID().slice(0, 8)
    const salted = (key: string | undefined) => key && salt + key.slice(8)
    // The first letters are what the salt replaces; the rest tells the keys apart.
    const ids: string[] = []
    for (const [kind, { pair, asset }] of files) {
      ids.push(
        await send('single', kind, {
          ...(pair && { pair: salted(pair) as string }),
          ...(asset && { asset: salted(asset) as string }),
        }),
      )
    }
    const joined = pairs.flat()
    await isAlone(t, ...ids.filter((_, i) => !joined.includes(i)))
    for (const [image, video] of pairs) {
      const [i, v] = [await rowOf(ids[image] as string), await rowOf(ids[video] as string)]
      t.strictSame([i.paired_media_id, v.paired_media_id], [v.id, i.id])
    }
    t.equal((await eventsOf(ids)).length, pairs.length)
  })
}

t.test('a third file with the pair id is refused and leaves no trace', async (t) => {
  const keys = { pair: randomUUID(), asset: randomUUID() }
  const [image, video] = [await send('single', 'image', keys), await send('single', 'video', keys)]
  const before = (await sql('select count(*)::int as n from media'))[0].n
  for (const kind of ['image', 'video'] as const) {
    const refused = await single(kind, keys)
    t.match(refused, { status: 409, code: 'CONFLICT' })
    t.equal(refused.body.error.message, `Another ${kind} has this live_photo_pair_id`)
    const half = kind === 'image' ? image : video
    const named = [{ field: 'body.live_photo_pair_id', media_id: half }]
    t.match(refused.body.error.details, named)
    const started = await start(kind, keys)
    t.match([started.status, started.code, started.body.error.details], [409, 'CONFLICT', named], 'before its bytes')
    t.equal((await start(kind, keys, { mime_type: 'application/octet-stream' })).status, 201, 'the merge will tell')
  }
  t.equal((await sql('select count(*)::int as n from media'))[0].n, before)
  await isLivePhoto(t, image, video, keys.asset)
})

t.test('files of another person or of another organization do not pair', async (t) => {
  const keys = { pair: randomUUID(), asset: randomUUID() }
  const ours = await send('single', 'image', keys)
  const theirs = (await single('video', keys, people.another)).data.media_id
  const elsewhere = (await single('video', keys, people.stranger, otherOrg)).data.media_id
  await isAlone(t, ours, theirs, elsewhere)
})

t.test('nothing pairs with what is in the trash', async (t) => {
  const keys = { pair: randomUUID(), asset: randomUUID() }
  const gone = await send('single', 'image', keys)
  await sql('update media set deleted_at = now(), version = version + 1 where id = $1', [uuidOf('media', gone)])
  const video = await send('single', 'video', keys)
  await isAlone(t, video)
  const image = await send('single', 'image', keys)
  await isLivePhoto(t, image, video, keys.asset)
  t.equal((await rowOf(gone)).paired_media_id, null)
})

t.test('halves that arrive at the same instant find each other, however they are sent', async (t) => {
  for (let round = 0; round < 20; round++) {
    const keys: Keys = {
      ...(round % 3 !== 0 && { pair: randomUUID() }),
      ...(round % 3 !== 1 && { asset: randomUUID() }),
    }
    const ready = async (way: number, kind: Kind) => (way % 2 ? inChunks(kind, keys) : () => single(kind, keys))
    const sends = [await ready(round, 'image'), await ready(round >> 1, 'video')]
    const answers = await Promise.all(sends.map((go) => go()))
    t.strictSame(
      answers.map((a) => a.status),
      [201, 201],
    )
    const [image, video] = answers.map((a) => a.data.media_id as string) as [string, string]
    await isLivePhoto(t, image, video, keys.asset ?? null)
  }
})

t.test('four files at the same instant with the same pair id: one image and one video stay', async (t) => {
  for (let round = 0; round < 5; round++) {
    const keys = { pair: randomUUID(), asset: randomUUID() }
    const merges = [await inChunks('image', keys), await inChunks('video', keys)]
    const answers = await Promise.all([single('image', keys), single('video', keys), ...merges.map((merge) => merge())])
    t.strictSame(answers.map((a) => a.status).sort(), [201, 201, 409, 409])
    const rows = await sql('select * from media where live_photo_pair_id = $1', [keys.pair])
    const [image, video] = (['image', 'video'] as const).map((kind) => rows.find((r) => r.kind === kind))
    await isLivePhoto(t, formatId('media', image.id), formatId('media', video.id), keys.asset)
  }
})

t.test('a merge that waits for a single upload with the same key holds nothing that the upload needs', async (t) => {
  const keys = { pair: randomUUID() }
  const merge = await inChunks('image', keys)
  const row = { ...aVideo(), livePhotoPairId: keys.pair as Uuid, assetIdentifier: null }
  const waiting = () =>
    sql(`select from pg_locks where locktype = 'advisory' and not granted and database =
    (select oid from pg_database where datname = current_database())`)
  let merged: ReturnType<typeof merge> | undefined
  await api.database.db.inTransaction({ org: orgId }, async (tx) => {
    await lockPairing(tx, row)
    merged = merge()
    await eventually('the merge to wait', async () => (await waiting()).length === 1)
    await recordMedia(changesOf(tx, { orgId, actorId: people.member.id, context: null }), row)
  })
  const answer = await merged
  t.equal(answer?.status, 201)
  await isLivePhoto(t, answer?.data.media_id, formatId('media', row.id), null)
})

t.test('six of a phone that exports three times at the same instant make three Live Photos', async (t) => {
  const keys = { asset: randomUUID() }
  const kinds = ['image', 'video', 'video', 'image', 'image', 'video'] as const
  const answers = await Promise.all(kinds.map((kind) => single(kind, keys)))
  t.strictSame(
    answers.map((a) => a.status),
    kinds.map(() => 201),
  )
  const rows = await sql('select * from media where asset_identifier = $1', [keys.asset])
  for (const row of rows) t.equal(rows.find((r) => r.id === row.paired_media_id)?.paired_media_id, row.id)
  t.equal(new Set(rows.map((r) => r.paired_media_id)).size, 6)
  t.equal((await eventsOf(rows.map((r) => formatId('media', r.id)))).length, 3)
})

t.test('a transaction that dies after the pairing leaves neither pair nor event, and the next try pairs', async (t) => {
  const asset = randomUUID()
  const image = await send('single', 'image', { asset })
  const row = { ...aVideo(), livePhotoPairId: null, assetIdentifier: asset }
  const attempt = (dies: boolean) =>
    api.database.db.inTransaction({ org: orgId }, async (tx) => {
      const made = await recordMedia(changesOf(tx, { orgId, actorId: people.member.id, context: null }), row)
      t.equal(made.pairedMediaId, uuidOf('media', image))
      if (dies) throw new Error('the connection is gone')
    })
  await t.rejects(attempt(true), /is gone/)
  await isAlone(t, image)
  await attempt(false)
  await isLivePhoto(t, image, formatId('media', row.id), asset)
})

t.test('a Live Photo is one item, and plays as soon as its video can be played', async (t) => {
  const asset = randomUUID()
  const [image, video] = [await send('single', 'image', { asset }), await send('single', 'video', { asset })]
  const get = (id: string) => call(people.another, 'GET', `/api/media/${org}/${id}`)
  const listed = async () => (await call(people.another, 'GET', `/api/media/${org}?limit=2`)).data.media
  t.equal((await listed())[0].media_id, image)
  t.not((await listed())[1].media_id, video)
  const waiting = await get(image)
  t.match(waiting.data.variants, { live_photo_video_url: null, hls_master_url: null, asset_identifier: asset })

  const videoId = uuidOf('media', video)
  const prefix = outputPrefix(orgId, videoId, 1)
  t.ok(
    await recordPlayable(
      api.database.worker,
      CONVERSIONS,
      { id: videoId, generation: 1 },
      { prefix, hlsMaster: 'master.m3u8' },
    ),
  )
  const playable = await get(image)
  t.not(playable.headers.get('etag'), waiting.headers.get('etag'))
  const link = playable.data.variants.live_photo_video_url
  // Links change every quarter of an hour.
  const sameFile = new RegExp(`/d/[^/]+/${prefix}master\\.m3u8$`)
  t.match(link, sameFile)
  t.match((await listed())[0].variants, { live_photo_video_url: sameFile })
  const companion = (await get(video)).data
  t.match(companion, { media_id: video, variants: { live_photo_video_url: null, hls_master_url: sameFile } })

  await api.store.put(`${prefix}master.m3u8`, '#EXTM3U\n', { contentType: 'application/vnd.apple.mpegurl' })
  await sql(`update media set manifest = '{}' where id = $1`, [videoId])
  t.equal((await call(undefined, 'GET', pathOf(link))).status, 200)

  t.equal((await call(people.member, 'DELETE', `/api/media/${org}/${image}`)).status, 204)
  const [trashed] = (await call(people.member, 'GET', `/api/media/${org}/trash?limit=1`)).data.media
  t.match(
    trashed,
    { media_id: image, variants: { live_photo_video_url: sameFile } },
    'it is a Live Photo in the trash too',
  )
})

t.test('metadata of the image say how long the moving part lasts, once that is known', async (t) => {
  const asset = randomUUID()
  const [image, video] = [await send('single', 'image', { asset }), await send('single', 'video', { asset })]
  const metadata = async (id: string) => (await call(people.member, 'GET', `/api/media/${org}/${id}/metadata`)).data
  t.match(await metadata(image), { duration_sec: null, live_photo_duration_sec: null })
  const id = uuidOf('media', video)
  const { hls, ...rest } = aManifest(id)
  // The sound goes on behind the last picture.
  const durationSec = 14.5
  await completeRun(
    api.database.worker,
    CONVERSIONS,
    { id, generation: 1 },
    { prefix: outputPrefix(orgId, id, 1), manifest: { ...rest, hls: { ...hls, durationSec } } },
  )
  t.match(await metadata(image), { duration_sec: null, live_photo_duration_sec: durationSec })
  t.match(await metadata(video), { duration_sec: durationSec, live_photo_duration_sec: null })
})

t.test('the end of the image conversion names the video that can be played by then', async (t) => {
  const master = async (isPlayable: boolean) => {
    const asset = randomUUID()
    const [image, video] = [await send('single', 'image', { asset }), await send('single', 'video', { asset })]
    const [imageId, videoId] = [uuidOf('media', image), uuidOf('media', video)]
    const done = (id: Uuid) => ({ prefix: outputPrefix(orgId, id, 1), manifest: aManifest(id) })
    if (isPlayable) await completeRun(api.database.worker, CONVERSIONS, { id: videoId, generation: 1 }, done(videoId))
    await completeRun(api.database.worker, CONVERSIONS, { id: imageId, generation: 1 }, null)
    const rows = await sql(`select payload from outbox where type = 'MediaTranscoded' and aggregate_id = $1`, [imageId])
    t.equal(rows.length, 1)
    return { found: rows[0].payload.variants.live_photo_video_url, prefix: outputPrefix(orgId, videoId, 1) }
  }
  const { found, prefix } = await master(true)
  t.equal(found, `${prefix}master.m3u8`)
  t.equal((await master(false)).found, null)
})

t.test('the plan: locks are the same for both halves, and the pair id comes first', async (t) => {
  const half = (kind: Kind, pair: Uuid | null, asset: string | null) => ({
    id: newUuid(),
    orgId,
    uploaderId: people.member.id,
    kind,
    livePhotoPairId: pair,
    assetIdentifier: asset,
  })
  const pairId = newUuid()
  t.strictSame(lookupsOf(half('image', null, null)), [])
  t.strictSame(lookupsOf(half('image', pairId, 'a')), [
    { by: 'pair', pairId },
    { by: 'asset', asset: 'a', unlessPairId: pairId },
  ])
  t.strictSame(lockNamesOf(half('image', pairId, 'a')), lockNamesOf(half('video', pairId, 'a')))
  t.equal(new Set(lockNamesOf(half('image', pairId, pairId))).size, 2, 'a key of one sort is not one of the other')
  t.strictSame(lockNamesOf(half('image', null, null)), [])
  const [image, video] = [half('image', null, 'a'), half('video', null, 'a')]
  t.strictSame(livePhotoOf(video, image), { image, video })
  t.strictSame(livePhotoOf(image, video), { image, video })
  t.equal(livePhotoOf(image, image), undefined)
})
