import type { Uuid } from '../../../../lib/contract/ids.ts'
import { formatId } from '../../../../lib/contract/ids.ts'
import { inSlices } from '../../../../lib/runtime/in-slices.ts'
import type { Log } from '../../../../lib/runtime/log.ts'
import type { Database } from '../../../db/db.ts'
import type { Notifications } from '../../../db/notification-listener.ts'
import { type EventStream, type Opening, retryOf } from '../../../requests/event-stream.ts'
import { notes } from './notes.ts'
import type { Positions, Versions } from './position.ts'
import { findFeedVersions, listOwnOrganizationIds } from './queries.ts'

/** Tells open event streams which organizations' feeds have changed. One for each process. */
export interface ChangesHub {
  /** Reads where the user is. `since` is the position that the client had. */
  follow(userId: Uuid, o: { since: string | undefined; device: string | undefined }): Promise<Opening>
}

export interface HubDeps {
  db: Database
  notifications: Notifications
  positions: Positions
  log: Log
}

/** A reader is told at most so often. */
export const COALESCE_MS = 250
/** Notifications of one batch of the consumer arrive together. */
const GATHER_MS = 10
const RETRY_MS = 1000
const SLICE = 200

/** Streams of the same organizations get the same events, which are made once for all of them. */
interface Audience {
  key: string
  orgIds: readonly Uuid[]
  streams: Set<EventStream>
}

export function openHub({ db, notifications, positions, log }: HubDeps): ChangesHub {
  const audiences = new Map<string, Audience>()
  const byOrg = new Map<Uuid, Set<Audience>>()
  /** Of every organization that is followed: the version that its readers have been told of. */
  const told = new Map<Uuid, number>()
  /** Notified since the last round. */
  let dirty = new Set<Uuid>()
  /** Notifications may have been missed: whose version differs has changed. */
  let isAllSuspect = false
  const noted = notes()

  // -- who follows what

  async function versionsOf(userId: Uuid): Promise<Map<Uuid, number>> {
    return db.read({ user: userId }, async (tx) => {
      const orgIds = (await listOwnOrganizationIds(tx, userId)).map(({ orgId }) => orgId).sort()
      const versions = orgIds.length > 0 ? await findFeedVersions(tx, orgIds) : new Map<Uuid, number>()
      return new Map(orgIds.map((orgId) => [orgId, versions.get(orgId) ?? 0]))
    })
  }

  function join(stream: EventStream, versions: Versions): Audience {
    const orgIds = [...versions.keys()]
    const key = orgIds.join(' ')
    const audience = audiences.get(key) ?? { key, orgIds, streams: new Set() }
    audiences.set(key, audience)
    audience.streams.add(stream)
    for (const [orgId, n] of versions) {
      const of = byOrg.get(orgId) ?? new Set()
      byOrg.set(orgId, of.add(audience))
      // Other readers may not have been told of this version yet: theirs stays until the round that tells them.
      if (!told.has(orgId)) told.set(orgId, n)
    }
    return audience
  }

  function leave(stream: EventStream, audience: Audience): void {
    audience.streams.delete(stream)
    if (audience.streams.size > 0) return
    audiences.delete(audience.key)
    for (const orgId of audience.orgIds) {
      const of = byOrg.get(orgId)
      of?.delete(audience)
      if (of?.size !== 0) continue
      byOrg.delete(orgId)
      told.delete(orgId)
    }
  }

  /** Whatever was notified after `since`, when `versions` were read, is told again. */
  function catchUp(versions: Versions, since: number): void {
    for (const orgId of versions.keys()) if (noted.isSince(orgId, since)) dirty.add(orgId)
    wake()
  }

  // -- what changed

  notifications.on('feed', (orgId) => {
    noted.note(orgId)
    if (orgId === undefined) isAllSuspect = true
    else if (byOrg.has(orgId)) dirty.add(orgId)
    wake()
  })

  let timer: NodeJS.Timeout | undefined
  let isRunning = false
  let notBefore = 0

  function wake(): void {
    if (timer || isRunning || (dirty.size === 0 && !isAllSuspect)) return
    timer = setTimeout(() => void round(), Math.max(GATHER_MS, notBefore - performance.now())).unref()
  }

  async function round(): Promise<void> {
    timer = undefined
    isRunning = true
    notBefore = performance.now() + COALESCE_MS
    const [named, all] = [dirty, isAllSuspect]
    dirty = new Set()
    isAllSuspect = false
    try {
      await tell(named, all)
    } catch (error) {
      log.warn({ err: error }, 'could not read what changed in feeds')
      for (const orgId of named) dirty.add(orgId)
      isAllSuspect ||= all
      notBefore = performance.now() + RETRY_MS
    } finally {
      isRunning = false
      wake()
    }
  }

  async function tell(named: ReadonlySet<Uuid>, all: boolean): Promise<void> {
    const asked = [...(all ? byOrg.keys() : named)].filter((orgId) => byOrg.has(orgId))
    if (asked.length === 0) return
    const versions = await db.read({}, (tx) => findFeedVersions(tx, asked))
    const changed = new Set(asked.filter((orgId) => named.has(orgId) || (versions.get(orgId) ?? 0) !== told.get(orgId)))
    for (const orgId of changed) if (byOrg.has(orgId)) told.set(orgId, versions.get(orgId) ?? 0)
    const concerned = new Set([...changed].flatMap((orgId) => [...(byOrg.get(orgId) ?? [])]))
    // Made before the first is sent: a later round may go on with the versions while these leave in slices.
    const letters = [...concerned].flatMap(({ orgIds, streams }) => {
      const text = changedEvent(
        orgIds.filter((orgId) => changed.has(orgId)),
        positions.encode(new Map(orgIds.map((orgId) => [orgId, told.get(orgId) ?? 0]))),
      )
      return [...streams].map((stream) => ({ stream, text }))
    })
    await inSlices(letters, SLICE, ({ stream, text }) => stream.send(text))
  }

  // -- one stream

  function begin(stream: EventStream, userId: Uuid, first: Versions, o: { since: string | undefined; at: number }) {
    let versions = first
    let audience = join(stream, versions)
    stream.onClose(() => leave(stream, audience))
    stream.send(`${retryOf(1000, 4000)}${firstEvent(positions, versions, o.since)}`)
    catchUp(versions, o.at)

    async function look(): Promise<void> {
      const at = noted.now()
      const now = await versionsOf(userId)
      if (!stream.isOpen) return
      // It comes back with its position, and learns that it has to read everything anew.
      if ([...versions.keys()].some((orgId) => !now.has(orgId))) return stream.end('access')
      const gained = [...now.keys()].filter((orgId) => !versions.has(orgId))
      if (gained.length === 0) return
      leave(stream, audience)
      versions = now
      audience = join(stream, now)
      stream.send(changedEvent([...now.keys()], positions.encode(now)))
      catchUp(now, at)
    }
    const lookAgain = () => {
      look().catch((error: unknown) => {
        log.warn({ err: error }, 'could not read the organizations of an open stream')
        stream.end('unverified')
      })
    }
    stream.onAccess(lookAgain)
    // The membership ended while the stream was being opened.
    if (noted.isSince(userId, o.at)) lookAgain()
  }
  notifications.on('access', noted.note)

  return {
    async follow(userId, { since, device }) {
      const at = noted.now()
      const versions = await versionsOf(userId)
      return { device, begin: (stream) => begin(stream, userId, versions, { since, at }) }
    },
  }
}

const changedEvent = (orgIds: readonly Uuid[], id: string) =>
  `event: changed\nid: ${id}\ndata: ${JSON.stringify({ org_ids: orgIds.map((orgId) => formatId('organization', orgId)) })}\n\n`

/** What the client has missed. Without a position, and without changes, only the position, which fires no event. */
function firstEvent(positions: Positions, versions: Versions, since: string | undefined): string {
  const id = positions.encode(versions)
  const missed = since === undefined ? [] : positions.missedSince(since, versions)
  if (missed === 'reset') return `event: reset\nid: ${id}\ndata: {}\n\n`
  return missed.length > 0 ? changedEvent(missed, id) : `id: ${id}\n\n`
}
