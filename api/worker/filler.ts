import type { Uuid } from '../../lib/contract/ids.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { keyedQueue } from './keyed-queue.ts'

export interface Filler {
  /**
   * Decides what starts now, in these organizations or in all, and starts it. Returns the ids of what it started. What
   * cannot be started now keeps its slot and is retried.
   */
  fill(orgIds?: readonly Uuid[]): Promise<ReadonlySet<Uuid>>
  /** Schedules a `fill` of one organization or of all. */
  wake(orgId?: Uuid): void
  /** Resolves when the work in progress is done. */
  stop(): Promise<void>
}

export interface FillerOptions {
  /** Names what is started in the log and, as `<subject>.admitted`, the failpoint. */
  subject: string
  /** Commits the decision and returns the ids of what to start, in that order. */
  decide(orgIds: readonly Uuid[] | undefined): Promise<Uuid[]>
  /** Creates the custom resource unless it exists. */
  start(id: Uuid): Promise<unknown>
  log: Log
  backoffMs?: ((attempts: number) => number) | undefined
}

const ALL = 'all organizations'

/** Any number of workers may run one each, if `decide` is safe to run at once. */
export function startFiller({ subject, decide, start, log, backoffMs }: FillerOptions): Filler {
  async function fill(orgIds?: readonly Uuid[]): Promise<ReadonlySet<Uuid>> {
    const decided = await decide(orgIds)
    if (decided.length > 0) failpoint(`${subject}.admitted`)
    const started = new Set<Uuid>()
    for (const id of decided) {
      try {
        await start(id)
        started.add(id)
      } catch (error) {
        log.warn({ err: error, subject, id }, 'could not start what has a slot')
        // If this process dies first, the sweep finds the slot without a resource.
        starts.add(id)
      }
    }
    return started
  }

  const starts = keyedQueue({
    concurrency: 4,
    look: async (id) => void (await start(id as Uuid)),
    onError: (error, id, attempt) =>
      log.warn({ err: error, subject, id, attempt }, 'could not start what has a slot; trying again later'),
    ...(backoffMs && { backoffMs }),
  })
  const fills = keyedQueue({
    concurrency: 2,
    look: async (key) => void (await fill(key === ALL ? undefined : [key as Uuid])),
    onError: (error, key, attempt) =>
      log.warn(
        { err: error, subject, organization: key, attempt },
        'could not fill the slots of an organization; trying again later',
      ),
    ...(backoffMs && { backoffMs }),
  })
  return {
    fill,
    wake: (orgId) => fills.add(orgId ?? ALL),
    async stop() {
      await fills.stop()
      await starts.stop()
    },
  }
}
