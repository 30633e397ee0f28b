import { hash } from 'node:crypto'
import { text } from 'node:stream/consumers'
import * as z from 'zod'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import { type ObjectStore, StoreError } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'
import { insertAudit } from './queries.ts'
import { type Day, dayAfter, type Head } from './seal-plan.ts'
import {
  insertRestore,
  isOpenDue,
  listHeads,
  listUnanchored,
  lockCursor,
  markAnchored,
  markOpenAnchored,
} from './seal-queries.ts'

/** In a bucket with object lock, an administrator of the database cannot change these objects. */
export const ANCHORS = 'audit/anchors/'
const LATEST = `${ANCHORS}latest.json`

const Chain = z.object({ org: z.string(), count: z.number(), hash: z.string() })

/** What the chains of a day were when the anchor was made. */
export const Anchor = z.object({
  version: z.literal(1),
  timeline: z.number(),
  day: z.string(),
  /** Whether the day gets no more links. */
  closed: z.boolean(),
  /** When it was made, by the database. */
  at: z.string(),
  /** All links that the database had ever made. */
  sealed: z.number(),
  chains: z.array(Chain),
  /** Of a closed day: SHA-256 over its day, its chains and the digest of the day before. */
  digest: z.string().optional(),
  previous: z.string().nullable().optional(),
})
export type Anchor = z.output<typeof Anchor>

const Latest = Anchor.pick({ timeline: true, sealed: true, at: true })

const timelineFolder = (timeline: number) => `${ANCHORS}t${timeline}/`
export const closedKey = (timeline: number, day: Day) => `${timelineFolder(timeline)}days/${day}.json`
export const openFolder = (timeline: number, day: Day) => `${timelineFolder(timeline)}open/${day}/`

export interface AnchorDeps {
  /** Connected as keepsake_worker. */
  db: Database
  store: Pick<ObjectStore, 'put' | 'get'>
}

const chainOf = ({ orgId, count, hash }: Head) => ({ org: orgId, count, hash: hash.toString('hex') })

export const digestOf = (day: Day, chains: Anchor['chains'], previous: string | null): string =>
  hash('sha256', JSON.stringify([day, previous, chains.map(({ org, count, hash }) => [org, count, hash])]))

/**
 * Puts the ends of the chains into the object store: of closed days once, of the open ones every hour. Repeated after any
 * interruption; two workers at once write the same, or two true statements.
 */
export async function anchor(deps: AnchorDeps): Promise<void> {
  const { db } = deps
  await noticeRestore(deps)
  for (;;) {
    const found = await db.read({}, async (tx) => {
      const [next] = await listUnanchored(tx, 1)
      return next && { ...next, chains: (await listHeads(tx, next.day, next.day)).map(chainOf) }
    })
    if (!found) break
    const { day, previous, chains } = found
    const digest = digestOf(day, chains, previous)
    const state = await db.inTransaction({}, lockCursor)
    await put(deps, closedKey(state.timeline, day), { ...common(state), day, closed: true, chains, digest, previous })
    failpoint('audit.anchored')
    await db.inTransaction({}, (tx) => markAnchored(tx, day, digest))
  }
  if (!(await db.read({}, isOpenDue))) return
  const { state, heads } = await db.inTransaction({}, async (tx) => {
    const cursor = await lockCursor(tx)
    return { state: cursor, heads: await listHeads(tx, dayAfter(cursor.closedUntil), '9999-12-31') }
  })
  for (const [day, ofDay] of Map.groupBy(heads, (head) => head.day)) {
    const key = `${openFolder(state.timeline, day)}${state.now.slice(0, 13)}.json`
    await put(deps, key, { ...common(state), day, closed: false, chains: ofDay.map(chainOf) })
  }
  await db.inTransaction({}, markOpenAnchored)
}

const common = ({ timeline, sealed, now }: { timeline: number; sealed: number; now: string }) => ({
  version: 1 as const,
  timeline,
  at: now,
  sealed,
})

async function put({ store }: AnchorDeps, key: string, anchor: Anchor): Promise<void> {
  const { timeline, sealed, at } = anchor
  const options = { contentType: 'application/json' }
  await store.put(key, JSON.stringify(anchor), options)
  await store.put(LATEST, JSON.stringify({ timeline, sealed, at }), options)
}

/**
 * A database that was restored to an earlier time has fewer links than its anchors say. Its chains go on as another
 * timeline with anchors of its own, and with an entry that says so.
 */
async function noticeRestore(deps: AnchorDeps): Promise<void> {
  // Before the cursor: the cursor that an anchor counted was committed before the anchor was written.
  const latest = await readJson(deps.store, LATEST, Latest)
  if (!latest) return
  await deps.db.inTransaction({}, async (tx) => {
    const cursor = await lockCursor(tx)
    const isOlder =
      latest.timeline > cursor.timeline || (latest.timeline === cursor.timeline && latest.sealed > cursor.sealed)
    if (!isOlder) return
    const timeline = latest.timeline + 1
    const entryId = await insertAudit(tx, {
      orgId: null,
      actorId: null,
      action: 'ADMIN_ACTION',
      resourceType: 'audit_log',
      resourceId: null,
      result: 'success',
      context: null,
      details: {
        operation: 'restored to an earlier time',
        sealed: cursor.sealed,
        anchored: latest.sealed,
        anchored_at: latest.at,
      },
    })
    await insertRestore(tx, {
      timeline,
      sealed: cursor.sealed,
      anchoredSealed: latest.sealed,
      anchoredAt: latest.at,
      entryId,
    })
  })
}

/** Undefined where there is no such object. */
export async function readJson<T>(
  store: Pick<ObjectStore, 'get'>,
  key: string,
  schema: z.ZodType<T>,
): Promise<T | undefined> {
  try {
    return schema.parse(JSON.parse(await text((await store.get(key)).body)))
  } catch (error) {
    if (error instanceof StoreError && error.code === 'NotFound') return undefined
    throw error
  }
}
