import { hash } from 'node:crypto'
import { text } from 'node:stream/consumers'
import * as z from 'zod'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import { type ObjectStore, StoreError } from '../../lib/runtime/object-store/object-store.ts'
import type { Database } from '../db/db.ts'
import { type Day, dayAfter, type Head } from './seal-plan.ts'
import { isOpenDue, listHeads, listUnanchored, lockCursor, markAnchored, markOpenAnchored } from './seal-queries.ts'

/** In a bucket with object lock, an administrator of the database cannot change these objects. */
export const ANCHORS = 'audit/anchors/'
export const LATEST = `${ANCHORS}latest.json`

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

export interface AnchorKey {
  key: string
  timeline: number
  closed: boolean
  day: Day
}

const KEY = /^t(\d{1,9})\/(days|open)\/(\d{4}-\d\d-\d\d)\/(?:[\dT-]+-)?[0-9a-f]{32}\.json$/

/** Undefined for other objects below the prefix. */
export function anchorKeyOf(key: string): AnchorKey | undefined {
  const [, timeline, kind, day] = (key.startsWith(ANCHORS) && KEY.exec(key.slice(ANCHORS.length))) || []
  if (timeline === undefined || day === undefined) return undefined
  return { key, timeline: Number(timeline), closed: kind === 'days', day }
}

export interface AnchorDeps {
  /** Connected as keepsake_worker. */
  db: Database
  store: Pick<ObjectStore, 'put' | 'get'>
}

export const chainOf = ({ orgId, count, hash }: Head) => ({ org: orgId, count, hash: hash.toString('hex') })

export const digestOf = (day: Day, chains: Anchor['chains'], previous: string | null): string =>
  hash('sha256', JSON.stringify([day, previous, chains.map(({ org, count, hash }) => [org, count, hash])]))

/**
 * Puts the ends of the chains into the object store: of closed days once, of the open ones every hour. Repeated after any
 * interruption; two workers at once write the same, or two true statements.
 */
export async function anchor(deps: AnchorDeps): Promise<void> {
  const { db } = deps
  for (;;) {
    const found = await db.read({}, async (tx) => {
      const [next] = await listUnanchored(tx, 1)
      return next && { ...next, chains: (await listHeads(tx, next.day, next.day)).map(chainOf) }
    })
    if (!found) break
    const { day, previous, chains } = found
    const digest = digestOf(day, chains, previous)
    const state = await db.inTransaction({}, lockCursor)
    await put(deps, `days/${day}/`, { ...common(state), day, closed: true, chains, digest, previous })
    failpoint('audit.anchored')
    await db.inTransaction({}, (tx) => markAnchored(tx, day, digest))
  }
  if (!(await db.read({}, isOpenDue))) return
  const { state, heads } = await db.inTransaction({}, async (tx) => {
    const cursor = await lockCursor(tx)
    return { state: cursor, heads: await listHeads(tx, dayAfter(cursor.closedUntil), '9999-12-31') }
  })
  for (const [day, ofDay] of Map.groupBy(heads, (head) => head.day)) {
    const name = `open/${day}/${state.now.slice(0, 13)}-`
    await put(deps, name, { ...common(state), day, closed: false, chains: ofDay.map(chainOf) })
  }
  await db.inTransaction({}, markOpenAnchored)
}

const common = ({ timeline, sealed, now }: { timeline: number; sealed: number; now: string }) => ({
  version: 1 as const,
  timeline,
  at: now,
  sealed,
})

async function put({ store }: AnchorDeps, name: string, anchor: Anchor): Promise<void> {
  const { timeline, sealed, at } = anchor
  await putNamedByContent(store, `${ANCHORS}t${timeline}/${name}`, anchor)
  await store.put(LATEST, JSON.stringify({ timeline, sealed, at }), { contentType: 'application/json' })
}

/**
 * The key has the hash of the content. A database that was changed can make the sealer anchor it again, which adds an
 * object and does not replace the one that proves the change.
 */
export async function putNamedByContent(store: Pick<ObjectStore, 'put'>, name: string, content: object): Promise<void> {
  const body = JSON.stringify(content)
  await store.put(`${name}${contentHash(body)}.json`, body, { contentType: 'application/json' })
}

const contentHash = (body: string) => hash('sha256', body).slice(0, 32)

/** Undefined for content that is not what the key says. */
export async function readNamedByContent<T>(
  store: Pick<ObjectStore, 'get'>,
  key: string,
  schema: z.ZodType<T>,
): Promise<T | undefined> {
  const body = await readText(store, key)
  if (body === undefined || !key.endsWith(`${contentHash(body)}.json`)) return undefined
  return schema.parse(JSON.parse(body))
}

/** Undefined where there is no such object. */
export async function readText(store: Pick<ObjectStore, 'get'>, key: string): Promise<string | undefined> {
  try {
    return await text((await store.get(key)).body)
  } catch (error) {
    if (error instanceof StoreError && error.code === 'NotFound') return undefined
    throw error
  }
}
