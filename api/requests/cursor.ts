import { createHmac, createSecretKey, hash, timingSafeEqual } from 'node:crypto'
import * as z from 'zod'
import type { Uuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import type { Clock } from '../../lib/runtime/clock.ts'

/** Identifies a list: a cursor of one list is invalid for every other. */
export interface CursorScope {
  /** Name of the list, e.g. `media`. */
  list: string
  org?: Uuid
  /** Ids in the path besides the organization. */
  of?: Record<string, unknown>
  /** Set where each caller has a separate list; leave out where all callers see the same list. */
  caller?: Uuid
  filters?: Record<string, unknown>
}

/**
 * The next page begins after the row with this key. `at` is the sort key of the list: an ISO time with the microseconds
 * that Postgres stores, or a position. `id` orders rows with the same `at`.
 */
export interface CursorPosition {
  at: string | number
  id: Uuid
}

export interface Cursors {
  encode(scope: CursorScope, after: CursorPosition): string
  /**
   * Throws Problem INVALID_CURSOR unless the server issued the cursor for this list within the last 24 hours, or little
   * more. `field`: where the request has it.
   */
  decode(scope: CursorScope, cursor: string, field?: `body.${string}`): CursorPosition
}

const LIFETIME_SECONDS = 24 * 3600
/** Cursors of one position made within a quarter of an hour are identical, as links are: the entity tag of a page stays. */
const WINDOW_SECONDS = 15 * 60
const expiryAt = (nowSeconds: number) => Math.ceil((nowSeconds + LIFETIME_SECONDS) / WINDOW_SECONDS) * WINDOW_SECONDS
const MAC_BYTES = 8
const Content = z.object({
  v: z.literal(1),
  k: z.tuple([z.union([z.iso.datetime({ offset: true }), z.number()]), z.guid()]),
  f: z.string(),
  exp: z.int(),
})

/** Cursors are opaque, signed and bound to their list, so that clients neither depend on the content nor forge one. */
export function cursors(secret: string, clock: Clock): Cursors {
  const key = createSecretKey(createHmac('sha256', secret).update('keepsake-cursor').digest())
  const mac = (body: Buffer) => createHmac('sha256', key).update(body).digest().subarray(0, MAC_BYTES)
  const now = () => Math.floor(clock.now().getTime() / 1000)

  return {
    encode(scope, after) {
      const content = { v: 1, k: [after.at, after.id], f: fingerprint(scope), exp: expiryAt(now()) }
      const body = Buffer.from(JSON.stringify(content))
      return `cursor_${Buffer.concat([body, mac(body)]).toString('base64url')}`
    },
    decode(scope, cursor, field) {
      const content = open(cursor)
      if (!content || content.f !== fingerprint(scope) || content.exp <= now()) throw invalid(field ?? 'query.cursor')
      return { at: content.k[0], id: content.k[1] }
    },
  }

  function open(cursor: string) {
    const bytes = Buffer.from(cursor.replace(/^cursor_/, ''), 'base64url')
    if (!cursor.startsWith('cursor_') || bytes.length <= MAC_BYTES) return undefined
    const body = bytes.subarray(0, -MAC_BYTES)
    if (!timingSafeEqual(mac(body), bytes.subarray(-MAC_BYTES))) return undefined
    return Content.safeParse(JSON.parse(body.toString())).data
  }
}

const invalid = (field: string) =>
  new Problem('INVALID_CURSOR', 'The cursor is not valid for this list. Start again without a cursor.', {
    details: [{ field, issue: 'is unknown, expired, or belongs to another list' }],
  })

/** The same for any order of the filters, and with or without undefined ones. */
function fingerprint({ list, org, of, caller, filters }: CursorScope): string {
  const text = JSON.stringify([list, org ?? null, caller ?? null, sorted(filters), sorted(of)])
  return hash('sha256', text, 'base64url').slice(0, 16)
}

const sorted = (given: Record<string, unknown> = {}) =>
  Object.entries(given)
    .filter(([, value]) => value !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
