import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import type { Database } from '../../../db/db.ts'
import { type Filler, startFiller } from '../../../worker/filler.ts'
import { listWaitingOrganizations, lockAdmissions } from '../../../worker/runs/admission-queries.ts'
import type { StartDeps } from '../../../worker/runs/start.ts'
import {
  type BatchLimits,
  type BatchPriority,
  batchesOf,
  inTurns,
  type PlannedBatch,
  waitingNeeded,
} from './batch-plan.ts'
import { findOrganizationImages, formBatch, hasWaiting, IMAGES } from './batch-queries.ts'
import { lockMedia } from './queries.ts'
import { startBatch } from './start.ts'

/** Puts waiting images into batches, as far as their organizations have slots, and starts the batches. */
export interface Batches extends Filler {
  /** Creates the TranscodeJob of a batch, unless this process did so already. */
  start(batch: Uuid): Promise<void>
}

export interface BatchesDeps extends StartDeps {
  onBatched?(priority: BatchPriority, images: number): void
}

export interface BatchesOptions extends BatchLimits {
  backoffMs?: (attempts: number) => number
}

/** Batches whose creation is remembered: the events of their members follow within seconds. */
const REMEMBERED = 1000
const RETRY_MS = 1000

/** Any number of workers may run one each: a batch is formed under a lock on the organization's row. */
export function startBatches(deps: BatchesDeps, { backoffMs, ...limits }: BatchesOptions): Batches {
  const { db, log } = deps
  const started = new Map<Uuid, Promise<void>>()
  const timers = new Map<Uuid, NodeJS.Timeout>()
  let isStopped = false

  // Otherwise each of 64 events would send all 64 inputs to the API server, to hear that they are there.
  function start(batch: Uuid): Promise<void> {
    const known = started.get(batch)
    if (known) return known
    const starting = startBatch(deps, batch).catch((error: unknown) => {
      started.delete(batch)
      throw error
    })
    started.set(batch, starting)
    for (const oldest of started.keys()) {
      if (started.size <= REMEMBERED) break
      started.delete(oldest)
    }
    return starting
  }

  /** If this process dies before, the next event of the organization or the sweep does it. */
  function wakeLater(orgId: Uuid, ms: number): void {
    if (isStopped || timers.has(orgId)) return
    const wake = () => {
      timers.delete(orgId)
      filler.wake(orgId)
    }
    timers.set(orgId, setTimeout(wake, ms))
  }

  // Thousands of events of one organization must not hold all connections while they wait for its row.
  const formOf = joined(async (orgId: Uuid) => {
    const formed = await formBatches(db, orgId, limits)
    for (const { priority, ids } of formed.batches) deps.onBatched?.(priority, ids.length)
    return formed
  })

  async function decide(orgIds: readonly Uuid[] | undefined): Promise<Uuid[]> {
    const candidates = orgIds ?? (await db.read({}, (tx) => listWaitingOrganizations(tx, IMAGES)))
    const formed: FormedBatch[] = []
    for (const orgId of candidates) {
      try {
        const { batches, againAfterMs } = await formOf(orgId)
        formed.push(...batches)
        if (againAfterMs !== undefined) wakeLater(orgId, againAfterMs)
      } catch (error) {
        if (candidates.length === 1) throw error
        // The batches of the others are formed, and must be started.
        log.warn({ err: error, organization: orgId }, 'could not batch the images of an organization')
        wakeLater(orgId, RETRY_MS)
      }
    }
    return inTurns(formed).map(({ id }) => id)
  }

  const filler = startFiller({ subject: 'batch', decide, start, log, backoffMs })
  return {
    ...filler,
    start,
    async stop() {
      isStopped = true
      for (const timer of timers.values()) clearTimeout(timer)
      await filler.stop()
    },
  }
}

type FormedBatch = PlannedBatch & { id: Uuid }

async function formBatches(db: Database, orgId: Uuid, limits: BatchLimits) {
  // Most ends of a conversion leave nothing to batch: then no row is locked.
  if (!(await db.read({}, (tx) => hasWaiting(tx, orgId)))) return { batches: [], againAfterMs: undefined }
  return db.inTransaction({}, async (tx) => {
    await lockAdmissions(tx, [orgId])
    // Separate statements: the locking statement sees the batches as they were before it waited.
    const plan = batchesOf(await findOrganizationImages(tx, orgId, waitingNeeded(limits)), limits)
    // Locks batch by batch would not be in order of id: this and the creation of a highlight could wait for each other.
    await lockMedia(
      tx,
      plan.batches.flatMap(({ ids }) => ids),
    )
    const batches: FormedBatch[] = []
    for (const planned of plan.batches) {
      const id = newUuid()
      const ids = await formBatch(tx, id, planned)
      if (ids.length > 0) batches.push({ ...planned, id, ids })
    }
    return { ...plan, batches }
  })
}

/** Never runs twice at once for a key: calls during a run share the next one, which sees whatever they have committed. */
function joined<T>(run: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const current = new Map<string, Promise<T>>()
  const next = new Map<string, Promise<T>>()

  function begin(key: string): Promise<T> {
    const running = run(key).finally(() => current.delete(key))
    current.set(key, running)
    return running
  }
  function follow(key: string, running: Promise<T>): Promise<T> {
    const following = running
      .catch(() => {})
      .then(() => {
        next.delete(key)
        return begin(key)
      })
    next.set(key, following)
    return following
  }
  return (key) => {
    const running = current.get(key)
    return next.get(key) ?? (running ? follow(key, running) : begin(key))
  }
}
