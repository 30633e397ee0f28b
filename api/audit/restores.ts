import * as z from 'zod'
import { formatId, type Uuid } from '../../lib/contract/ids.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'
import { ANCHORS, type AnchorDeps, LATEST, putNamedByContent, readNamedByContent, readText } from './anchors.ts'
import { insertAudit } from './queries.ts'
import { insertRestore, listRestores, lockCursor, type Restore, readPlace } from './seal-queries.ts'

const OF_LOG = { orgId: null, actorId: null, resourceId: null, result: 'success', context: null } as const

const Latest = z.object({ timeline: z.number(), sealed: z.number(), at: z.string() })

/**
 * A database that was restored to an earlier time has fewer links than its anchors say. Its chains go on as another
 * timeline with anchors of its own, and with an entry that says so. Has to come before the sealer makes more links: they
 * would make up for those that are lost.
 */
export async function noticeRestore(deps: AnchorDeps): Promise<void> {
  const latest = await readLatest(deps.store)
  if (!latest) return
  await deps.db.inTransaction({}, async (tx) => {
    const cursor = await lockCursor(tx)
    if (!isOlder(cursor, latest)) return
    const timeline = latest.timeline + 1
    const entryId = await insertAudit(tx, {
      ...OF_LOG,
      action: 'ADMIN_ACTION',
      resourceType: 'audit_log',
      details: {
        operation: 'restored to an earlier time',
        sealed: cursor.sealed,
        anchored: latest.sealed,
        anchored_at: latest.at,
      },
    })
    await insertRestore(tx, {
      timeline,
      from: cursor.timeline,
      sealed: cursor.sealed,
      anchoredSealed: latest.sealed,
      anchoredAt: latest.at,
      entryId,
    })
  })
}

/** Before the cursor: the cursor that an anchor counted was committed before the anchor was written. */
async function readLatest(store: Pick<ObjectStore, 'get'>): Promise<z.output<typeof Latest> | undefined> {
  const text = await readText(store, LATEST)
  return text === undefined ? undefined : Latest.parse(JSON.parse(text))
}

type Place = Pick<z.output<typeof Latest>, 'timeline' | 'sealed'>

const isOlder = (log: Place, latest: Place): boolean =>
  latest.timeline > log.timeline || (latest.timeline === log.timeline && latest.sealed > log.sealed)

/**
 * Whether the store has anchors of a later log than that of this database: it is another store's, or a backup that was
 * restored and that no sealer has noticed yet.
 */
export async function isBehindStore({
  db,
  store,
}: {
  db: Database
  store: Pick<ObjectStore, 'get'>
}): Promise<boolean> {
  const latest = await readLatest(store)
  return latest !== undefined && isOlder(await db.read({}, readPlace), latest)
}

const ACCEPTED = `${ANCHORS}restores/`

const Accepted = z.object({ timeline: z.number(), from: z.number(), sealed: z.number(), entry: z.string() })

const acceptedOf = ({ timeline, from, sealed, entryId }: Restore) => ({
  timeline,
  from,
  sealed,
  entry: formatId('audit', entryId),
})
const nameOf = (one: z.output<typeof Accepted>) => `${one.timeline} ${one.from} ${one.sealed} ${one.entry}`

/**
 * A user of the database with all rights can make it look restored, and then change what the anchors of before prove. So
 * administrators say which restores were theirs, beside the anchors. Undefined for an entry that tells of no restore.
 */
export async function acceptRestore(
  { db, store }: { db: Database; store: Pick<ObjectStore, 'put'> },
  entryId: Uuid,
): Promise<Restore | undefined> {
  const restore = await db.inTransaction({}, async (tx) => {
    const found = (await listRestores(tx)).find((one) => one.entryId === entryId)
    if (!found) return undefined
    await insertAudit(tx, {
      ...OF_LOG,
      action: 'ADMIN_ACTION',
      resourceType: 'audit_log',
      details: { operation: 'accept restore', entry: formatId('audit', entryId), sealed: found.sealed },
    })
    return found
  })
  // Behind the entry: an acceptance that the log does not tell of would be worse than an entry without one.
  if (restore) await putNamedByContent(store, ACCEPTED, acceptedOf(restore))
  return restore
}

/** Whether this restore, as the database has it, was accepted. */
export async function readAccepted(store: Pick<ObjectStore, 'get' | 'list'>): Promise<(restore: Restore) => boolean> {
  const names = new Set<string>()
  for await (const { key } of store.list(ACCEPTED)) {
    const one = await readNamedByContent(store, key, Accepted)
    if (one) names.add(nameOf(one))
  }
  return (restore) => names.has(nameOf(acceptedOf(restore)))
}
