import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Database, Tx } from '../db/db.ts'
import type { PersonalData } from './personal-data.ts'
import { chainDay, linksOf, NO_ORG } from './seal-plan.ts'
import {
  type Cursor,
  closableNow,
  closeDays,
  countLinks,
  encryptEntries,
  findHeads,
  insertLinks,
  type Listed,
  listBefore,
  listUnlinked,
  listUnsealed,
  lockLog,
  moveBefore,
  moveCursor,
  moveHeads,
  noteActorDays,
  readAgain,
  rebaseCursor,
  takeCursor,
} from './seal-queries.ts'

export interface SealDeps {
  /** Connected as keepsake_worker. */
  db: Database
  personalData: Pick<PersonalData, 'encrypt'>
}

/** Entries of one transaction. */
export const PASS_ENTRIES = 10_000
/** Of these, entries in plain text: each can need a key of its own, and the transaction waits for them. */
const PASS_PLAIN = 500
/** Keys that are made at once, on one connection beside the transaction's. */
const KEYS_AT_ONCE = 20

/**
 * Seals the next entries, in one transaction with the move of the cursor: a sealer that dies repeats the pass, and nothing
 * else. `more`: there is more to do now. `busy`: another sealer works.
 */
export function sealOnce({ db, personalData }: SealDeps, limit = PASS_ENTRIES): Promise<'more' | 'done' | 'busy'> {
  return db.inTransaction({}, async (tx) => {
    const cursor = await takeCursor(tx)
    if (!cursor) return 'busy'
    const pass = { tx, cursor, personalData, limit }
    if (cursor.isMoved) return rebase(pass)
    if (cursor.beforeAt !== null) return sealBefore(pass)
    const { entries, isFull } = portionOf(await listUnsealed(tx, cursor, limit), limit)
    await link(pass, entries)
    const last = entries.at(-1)
    if (last) await moveCursor(tx, last, entries.length)
    if (last) failpoint('audit.moved')
    if (isFull) return 'more'
    // The pass reached the horizon: what of the day is not sealed yet belongs to a transaction that still runs.
    return close({ ...pass, cursor: { ...cursor, ...(last && { upto: last.txid, serial: last.serial }) } })
  })
}

const isPlain = ({ ipAddress, userAgent }: Listed) => ipAddress !== null || userAgent !== null

/** What one transaction seals of them, and whether there may be more. */
function portionOf(listed: readonly Listed[], limit: number): { entries: readonly Listed[]; isFull: boolean } {
  let plain = 0
  const end = listed.findIndex((entry) => isPlain(entry) && ++plain > PASS_PLAIN)
  return end < 0
    ? { entries: listed, isFull: listed.length === limit }
    : { entries: listed.slice(0, end), isFull: true }
}

interface Pass {
  tx: Tx
  cursor: Cursor
  personalData: Pick<PersonalData, 'encrypt'>
  limit: number
}

async function close({ tx, cursor }: Pass): Promise<'more' | 'done'> {
  if (cursor.closedUntil >= cursor.closable) return 'done'
  const until = await closableNow(tx, cursor)
  if (cursor.closedUntil >= until) return 'done'
  // All at once: the oldest open day is one that has its partitions, also after weeks without any program.
  await closeDays(tx, until)
  return 'more'
}

async function sealBefore(pass: Pass): Promise<'more'> {
  // Almost all of them are in plain text: more would be read than one pass seals.
  const limit = Math.min(pass.limit, PASS_PLAIN)
  const { entries, isFull } = portionOf(await listBefore(pass.tx, pass.cursor, limit), limit)
  await link(pass, entries)
  const last = isFull ? entries.at(-1) : undefined
  await moveBefore(pass.tx, last ?? null, entries.length)
  return 'more'
}

/**
 * In another cluster the ids of transactions begin anew: entries that were restored would seem to come from the future,
 * and new ones to be sealed already. So all entries without a link are sealed by time. Changes wait for the last of them
 * only, while the cursor moves.
 */
async function rebase(pass: Pass): Promise<'more'> {
  if (await sealUnlinked(pass)) return 'more'
  await lockLog(pass.tx)
  while (await sealUnlinked(pass));
  await rebaseCursor(pass.tx)
  return 'more'
}

/** Whether there may be more. */
async function sealUnlinked(pass: Pass): Promise<boolean> {
  const { entries, isFull } = portionOf(await listUnlinked(pass.tx, pass.cursor, pass.limit), pass.limit)
  await link(pass, entries)
  await countLinks(pass.tx, entries.length)
  return isFull
}

async function link({ tx, cursor, personalData }: Pass, listed: readonly Listed[]): Promise<void> {
  if (listed.length === 0) return
  const entries = await withoutPlainText(tx, personalData, listed)
  const { closedUntil } = cursor
  const chains = new Map(
    entries.map(({ orgId, day }) => {
      const chain = { orgId: orgId ?? NO_ORG, day: chainDay(day, closedUntil) }
      return [`${chain.orgId} ${chain.day}`, chain]
    }),
  )
  const { links, heads } = linksOf(entries, await findHeads(tx, [...chains.values()]), closedUntil)
  await insertLinks(tx, links)
  await moveHeads(tx, heads)
  await noteActorDays(tx, entries)
}

/** Programs of a version before encryption may run beside this one, and their entries are in plain text. */
async function withoutPlainText(
  tx: Tx,
  personalData: Pick<PersonalData, 'encrypt'>,
  listed: readonly Listed[],
): Promise<readonly Listed[]> {
  const plain = listed.filter(isPlain)
  if (plain.length === 0) return listed
  const boxOf = async ({ id, actorId, ipAddress, userAgent }: Listed) =>
    personalData.encrypt(
      { entryId: id, personId: actorId },
      { ...(ipAddress !== null && { ipAddress }), ...(userAgent !== null && { userAgent }) },
    )
  const boxes: Awaited<ReturnType<typeof boxOf>>[] = []
  for (let n = 0; n < plain.length; n += KEYS_AT_ONCE) {
    boxes.push(...(await Promise.all(plain.slice(n, n + KEYS_AT_ONCE).map(boxOf))))
  }
  await encryptEntries(tx, plain, boxes)
  const changed = await readAgain(tx, plain)
  return listed.map((entry) => ({ ...entry, canonical: changed.get(entry.id) ?? entry.canonical }))
}
