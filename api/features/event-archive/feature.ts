import * as z from 'zod'
import type { Feature } from '../../feature.ts'
import { workerPart } from '../../worker/feature-worker.ts'
import { countRefusedNotices } from './notice-queries.ts'
import { giveNotices } from './notices.ts'

/** What becomes of archived events: the cold tier, notices to their owners, the purge. */
export const eventsInArchive: Feature = {
  personal: {},
  erase: [],
  tags: {},
  routes: () => [],
  actions: [],
  export: { nothing: 'works on what other features keep' },
  worker: workerPart(z.object({}), (deps) => ({
    tasks: [{ name: 'event-purge-notices', run: (_, signal) => giveNotices(deps, signal) }],
    gauges: [
      {
        name: 'event_purge_notices_refused',
        help: 'Archived events whose last notice was given again because each receiver had refused it for the time being; NaN when the database does not answer',
        read: countRefusedNotices,
      },
    ],
  })),
}
