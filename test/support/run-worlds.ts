import type { Test } from 'tap'
import { and, count, eq, getTableName, isNotNull, isNull, type SQL, sql } from '../../api/db/orm.ts'
import { startRenderAdmission } from '../../api/features/highlights/render/admission.ts'
import { RENDERS } from '../../api/features/highlights/render/kind.ts'
import { highlightReactions } from '../../api/features/highlights/render/reactions.ts'
import { startVideoAdmission } from '../../api/features/media/conversion/admission.ts'
import { startBatches } from '../../api/features/media/conversion/batches.ts'
import { CONVERSIONS } from '../../api/features/media/conversion/kind.ts'
import { conversionReactions } from '../../api/features/media/conversion/reactions.ts'
import type { Admission, AdmissionOptions } from '../../api/worker/runs/admission.ts'
import type { RunKind, RunRow, RunTypes } from '../../api/worker/runs/kind.ts'
import { startAdmitted } from '../../api/worker/runs/start.ts'
import type { RunStatus } from '../../crds/run.ts'
import type { OutboxMessage } from '../../lib/contract/events.ts'
import { formatId, newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { manifestKey, masterKey } from '../../lib/contract/object-keys.ts'
import { aManifest, conversionWorld, NAMESPACE, startConversionTest, succeeded } from './conversion-world.ts'
import { aHighlightManifest } from './highlights.ts'

type Started = Awaited<ReturnType<typeof startConversionTest>>
type Deps = Started['base']

/** What the tests need to know of a kind of runs. */
interface Kit {
  kind: RunKind<RunTypes>
  /** The notification that a slot became free. */
  channel: string
  /** The event about a run that has succeeded. */
  announces: string
  /** Why a run may have failed. */
  failure: { code: string }
  startSlots(deps: Deps, options: AdmissionOptions): Admission
  /** What a worker does when it is told of a new row. */
  react(deps: Deps & { admission: Admission }, id: Uuid): Promise<void>
  /** Makes a row that waits for a slot. */
  create(started: Started, org: { id: Uuid; user: Uuid; media: Uuid }): Promise<Uuid>
  /** What the job writes last. */
  manifestOf(id: Uuid): object
}

const KITS: Kit[] = [
  {
    kind: CONVERSIONS,
    channel: 'conversions',
    announces: 'MediaTranscoded',
    failure: { code: 'INTERNAL', message: 'x' } as { code: string },
    startSlots: startVideoAdmission,
    react: async ({ admission, ...deps }, id) => {
      const batches = startBatches(deps, { interactive: 1, backfill: 1 })
      await conversionReactions({ ...deps, admission, batches, conversions: CONVERSIONS }).MediaUploaded?.({
        aggregateId: id,
      } as OutboxMessage)
    },
    async create({ database: { admin } }, { id: org, user }) {
      const id = newUuid()
      await admin.query(
        `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes)
          values ($1, $2, $3, 'a.mp4', 'video/mp4', 'video', 5)`,
        [id, org, user],
      )
      return id
    },
    manifestOf: aManifest,
  },
  {
    kind: RENDERS,
    channel: 'renders',
    announces: 'HighlightGenerated',
    failure: { code: 'INTERNAL', message: 'x', mediaId: null } as { code: string },
    startSlots: startRenderAdmission,
    react: async (deps, id) =>
      highlightReactions(deps).HighlightRequested?.({ aggregateId: id } as OutboxMessage) as Promise<void>,
    async create({ database: { admin } }, { id: org, user, media }) {
      const id = newUuid()
      await admin.query(
        `with made as (
          insert into highlights (id, org_id, created_by, title, transition, orientation, fill, ken_burns, show_title,
            captions, skip_broken, estimated_duration_sec)
          values ($1, $2, $3, 'x', 'cut', 'auto', 'blur', true, true, 'none', false, 4) returning id)
        insert into highlight_items (highlight_id, position, org_id, media_id, source_id, uploader_id, type, seconds,
          caption) select id, 0, $2, $4, $4, $3, 'image', 4, '' from made`,
        [id, org, user, media],
      )
      return id
    },
    manifestOf: (id) => aHighlightManifest(formatId('highlight', id), [formatId('media', newUuid())]),
  },
]

/** Runs the tests once for every kind of runs, each in a database of its own: what holds for one holds for all. */
export function eachKindOfRuns(tap: Test, tests: (t: Test, world: RunWorld) => void | Promise<void>): void {
  for (const kit of KITS) void tap.test(kit.kind.noun, async (t) => tests(t, await runWorld(t, kit)))
}

export type RunWorld = Awaited<ReturnType<typeof runWorld>>

async function runWorld(t: Test, kit: Kit) {
  const { kind } = kit
  const { table, columns } = kind.table
  const tableName = getTableName(table)
  const started = await startConversionTest(t)
  const { database, place, cluster, world, base } = started
  const other = await conversionWorld(database, place, cluster)
  const { admin, worker: db } = database
  const orgs = {
    ours: { id: world.org, user: world.user, media: await world.upload('image/jpeg') },
    others: { id: other.org, user: other.user, media: await other.upload('image/jpeg') },
  }
  /** Another kind may have rows in the same table: those that were there are no runs of the tests. */
  const { rows: kept } = await admin.query(`select id from ${tableName}`)
  t.beforeEach(async () => {
    await admin.query(`delete from ${tableName} where id <> all ($1)`, [kept.map(({ id }) => id)])
    for (const { metadata } of await cluster.list(kind.resource, { namespace: NAMESPACE })) {
      await cluster.delete(kind.resource, { namespace: NAMESPACE, name: metadata.name })
    }
  })

  /** With the names of columns that all kinds share; of a deleted row as well. */
  async function row(id: Uuid) {
    const [found] = await db.read({}, (tx) =>
      tx
        .select({ ...columns, ...kind.table.more })
        .from(table)
        .where(eq(columns.id, id)),
    )
    return found as RunRow & {
      version: number
      error: { code: string } | null
      hlsMaster: string | null
      finishedAt: Date | null
    }
  }
  const set = async (id: Uuid, change: string) =>
    void (await admin.query(`update ${tableName} set ${change} where id = $1`, [id]))
  const nameOf = async (id: Uuid) => kind.nameOf(await row(id))
  const keyOf = async (id: Uuid) => ({ namespace: NAMESPACE, name: await nameOf(id) })
  const prefixOf = async (id: Uuid) => kind.prefixOf(await row(id))
  const resource = async (id: Uuid) =>
    cluster.get<RunTypes['object'] & { metadata: { name: string } }>(kind.resource, await keyOf(id))
  const admit = (id: Uuid) =>
    db.inTransaction({}, async (tx) => {
      const change: Record<string, SQL> = { [columns.admittedAt.name]: sql`now()` }
      await tx.update(table).set(change).where(eq(columns.id, id))
    })

  return {
    ...kit,
    ...{ database, cluster, base, tableName, row, set, keyOf, prefixOf, resource, admit },
    orgId: orgs.ours.id,
    wanted: () => kit.create(started, orgs.ours),
    wantedElsewhere: () => kit.create(started, orgs.others),
    /** The id of the run, and its generation. */
    keyIn: (id: Uuid) => ({ id, generation: 1 }),
    /** A row with a slot and the resource that the worker makes for it. */
    async running(): Promise<Uuid> {
      const id = await kit.create(started, orgs.ours)
      await admit(id)
      await startAdmitted(base, kind, id)
      return id
    },
    show: async (id: Uuid, status: RunStatus) =>
      void (await cluster.applyStatus(kind.resource, await keyOf(id), status, 'test')),
    /** What the operator says of a run whose job is done. */
    done: succeeded(),
    async removeResource(id: Uuid): Promise<void> {
      await cluster.delete(kind.resource, await keyOf(id))
    },
    /** What a job program leaves when it is done. */
    async writeOutput(id: Uuid, change: object = {}): Promise<void> {
      const prefix = await prefixOf(id)
      const manifest = JSON.stringify({ ...kit.manifestOf(id), ...change })
      await base.store.put(masterKey(prefix), '#EXTM3U\n', { contentType: 'application/vnd.apple.mpegurl' })
      await base.store.put(manifestKey(prefix), manifest, { contentType: 'application/json' })
    },
    /** Ids of rows that have a resource, in the order in which they got it. */
    async started(): Promise<Uuid[]> {
      const made = await cluster.list<RunTypes['object']>(kind.resource, { namespace: NAMESPACE })
      const version = (one: (typeof made)[number]) => Number(one.metadata.resourceVersion)
      return made.sort((a, b) => version(a) - version(b)).flatMap((one) => kind.factsOf(one).map(({ id }) => id))
    },
    /** How many rows have a slot. */
    async admitted(): Promise<number> {
      const [found] = await db.read({}, (tx) =>
        tx
          .select({ n: count() })
          .from(table)
          .where(and(eq(columns.status, 'processing'), isNull(columns.deletedAt), isNotNull(columns.admittedAt))),
      )
      return found?.n ?? 0
    },
    /** How often the end of a run was announced. */
    async announced(id: Uuid): Promise<number> {
      const { rows } = await admin.query('select from outbox where aggregate_id = $1 and type = $2', [
        id,
        kit.announces,
      ])
      return rows.length
    },
  }
}
