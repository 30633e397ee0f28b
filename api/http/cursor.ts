import { createHmac, createSecretKey, hash, timingSafeEqual } from 'node:crypto'
import * as z from 'zod'
import type { Uuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import type { Clock } from '../../lib/runtime/clock.ts'

/** Everything that makes a list this list: a cursor made for one is refused by every other. */
export interface CursorScope {
  /** Name of the list, e.g. `media`. */
  list: string
  org?: Uuid
  /** Ids in the path besides the organization. */
  of?: Record<string, unknown>
  /** Where every caller has a list of their own; leave out where all see the same. */
  caller?: Uuid
  filters?: Record<string, unknown>
}

/**
 * Where the next page begins: after the row with this key. `at` is what the list is sorted by: a time as ISO with
 * microseconds, as Postgres keeps it, or a position. `id` decides between rows of the same `at`.
 */
export interface CursorPosition {
  at: string | number
  id: Uuid
}

export interface Cursors {
  encode(scope: CursorScope, after: CursorPosition): string
  /** Throws Problem INVALID_CURSOR for anything this server did not make for this list within 24 hours. */
  decode(scope: CursorScope, cursor: string): CursorPosition
}

const LIFETIME_SECONDS = 24 * 3600
const MAC_BYTES = 8
const Content = z.object({
  v: z.literal(1),
  k: z.tuple([z.union([z.iso.datetime({ offset: true }), z.number()]), z.guid()]),
  f: z.string(),
  exp: z.int(),
})

/** Opaque, signed, bound to its list: clients can neither read a meaning into one nor make one up. */
export function cursors(secret: string, clock: Clock): Cursors {
  const key = createSecretKey(createHmac('sha256', secret).update('keepsake-cursor').digest())
  const mac = (body: Buffer) => createHmac('sha256', key).update(body).digest().subarray(0, MAC_BYTES)
  const now = () => Math.floor(clock.now().getTime() / 1000)

  return {
    encode(scope, after) {
      const content = { v: 1, k: [after.at, after.id], f: fingerprint(scope), exp: now() + LIFETIME_SECONDS }
      const body = Buffer.from(JSON.stringify(content))
      return `cursor_${Buffer.concat([body, mac(body)]).toString('base64url')}`
    },
    decode(scope, cursor) {
      const content = open(cursor)
      if (!content || content.f !== fingerprint(scope) || content.exp <= now()) throw invalid()
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

const invalid = () =>
  new Problem('INVALID_CURSOR', 'The cursor is not valid for this list. Start again without one.', {
    details: [{ field: 'query.cursor', issue: 'is unknown, expired, or of another list' }],
  })

/** The order in which filters were written, and those left out, make no difference. */
function fingerprint({ list, org, of, caller, filters }: CursorScope): string {
  const text = JSON.stringify([list, org ?? null, caller ?? null, sorted(filters), sorted(of)])
  return hash('sha256', text, 'base64url').slice(0, 16)
}

const sorted = (given: Record<string, unknown> = {}) =>
  Object.entries(given)
    .filter(([, value]) => value !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
