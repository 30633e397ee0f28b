import { recordMedia } from '../../api/features/media/commands.ts'
import { CONVERSIONS } from '../../api/features/media/conversion/kind.ts'
import { changesOf } from '../../api/requests/change.ts'
import { completeRun } from '../../api/worker/runs/commands.ts'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { outputPrefix } from '../../lib/contract/object-keys.ts'
import { anImageManifest } from '../support/conversion-world.ts'
import { type TestDatabase, testDatabase } from '../support/database.ts'
import { median } from './world.ts'

/**
 * What the counts of months and the indexes of galleries, Live Photos, trash and batches cost the transaction that ends
 * an upload, and the one that ends a conversion: the same on three databases, two of which lack them. Rounds alternate;
 * medians of the rounds are compared. `BENCH_ROUNDS` (15) and `BENCH_ROWS` (100000) change how many.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const ROWS = Number(process.env['BENCH_ROWS'] ?? 100_000)
const PER_ROUND = 100
const WITHOUT_MONTHS = 'drop trigger media_months_added on media; drop trigger media_months_moved on media;'
/** Those that came with photos and that neither transaction reads. */
const INDEXES = [
  'media_taken',
  'media_taken_of_type',
  'media_taken_of_kind',
  'media_paired',
  'media_failed',
  'media_trash',
  'media_trash_of_uploader',
  'media_trash_of_deleter',
  'media_deleted',
  'media_image_waiting',
  'media_image_waiting_of_uploader',
  'media_image_batched',
  'media_unfinished_of_uploader',
  'media_of_batch',
]
const SIDES = [
  ['everything', ''],
  ['without the counts of months', WITHOUT_MONTHS],
  [
    'and without the indexes that it does not read',
    `${WITHOUT_MONTHS} ${INDEXES.map((name) => `drop index ${name};`).join(' ')}`,
  ],
] as const

interface Side {
  database: TestDatabase
  org: Uuid
  user: Uuid
  upload: number[]
  completion: number[]
}

const endings: (() => Promise<void>)[] = []
const t = { teardown: (done: () => Promise<void>) => void endings.unshift(done) }
try {
  console.log(await measure())
} finally {
  for (const end of endings) await end()
}

async function measure(): Promise<string> {
  const sides: Side[] = []
  for (const [, change] of SIDES) sides.push(await build(change))
  for (const side of sides) await round(side)
  for (const side of sides) [side.upload, side.completion] = [[], []]
  for (let i = 0; i < ROUNDS; i++) for (const side of i % 2 ? [...sides].reverse() : sides) await round(side)
  const least = sides.at(-1) as Side
  const cell = (side: Side, what: 'upload' | 'completion') =>
    `${median(side[what]).toFixed(2)} | ${(median(side[what]) / median(least[what])).toFixed(2)}`
  return [
    `Milliseconds per transaction beside ${ROWS} media items of an organization, one after another, medians of ${ROUNDS}`,
    `alternating rounds of ${PER_ROUND}`,
    '',
    '| database | end of an upload | ratio | end of a conversion | ratio |',
    '|---|---|---|---|---|',
    ...sides.map((side, i) => `| ${SIDES[i]?.[0]} | ${cell(side, 'upload')} | ${cell(side, 'completion')} |`),
  ].join('\n')
}

async function build(change: string): Promise<Side> {
  const database = await testDatabase(t)
  const { admin } = database
  const [org, user] = [newUuid(), newUuid()]
  await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'bench', user])
  await admin.query('insert into organizations (id, name) values ($1, $2)', [org, 'Bench'])
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
       conversion_state, created_at, captured_at, asset_identifier)
     select gen_random_uuid(), $1, $2, 'IMG', 'image/jpeg', 'image', 4000000, 'completed', 'succeeded',
       now() - make_interval(mins => n), now() - make_interval(mins => n * 7 % (10 * 365 * 1440)), 'asset ' || n
     from generate_series(1, $3::int) n`,
    [org, user, ROWS],
  )
  if (change) await admin.query(change)
  await admin.query('vacuum analyze')
  return { database, org, user, upload: [], completion: [] }
}

async function round({ database: { db, worker }, org, user, upload, completion }: Side): Promise<void> {
  const ids = Array.from({ length: PER_ROUND }, () => newUuid())
  const file = {
    originalFilename: 'IMG',
    mimeType: 'image/jpeg',
    kind: 'image' as const,
    fileSizeBytes: 1,
    sha256: null,
  }
  const timed = async (work: (id: Uuid) => Promise<unknown>) => {
    const started = performance.now()
    for (const id of ids) await work(id)
    return (performance.now() - started) / PER_ROUND
  }
  upload.push(
    await timed((id) =>
      db.inTransaction({ org }, (tx) =>
        recordMedia(changesOf(tx, { orgId: org, actorId: user, context: null }), {
          ...file,
          id,
          orgId: org,
          uploaderId: user,
          livePhotoPairId: null,
          assetIdentifier: id,
        }),
      ),
    ),
  )
  completion.push(
    await timed((id) => {
      const result = { prefix: outputPrefix(org, id, 1), manifest: anImageManifest(id) }
      return completeRun(worker, CONVERSIONS, { id, generation: 1 }, result)
    }),
  )
}
