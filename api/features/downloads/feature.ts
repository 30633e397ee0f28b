import * as z from 'zod'
import type { Feature } from '../../feature.ts'
import { workerPart } from '../../worker/feature-worker.ts'
import { keyedQueue } from '../../worker/keyed-queue.ts'
import { sweepDownloads } from './downloads.ts'
import { downloadsPart } from './erasure.ts'

/** What exports of other features leave for one person to download. Its links are those of the media feature. */
export const downloads: Feature = {
  ...downloadsPart,
  tags: {},
  routes: () => [],
  actions: [],
  export: { nothing: 'copies of what other features keep' },
  worker: workerPart(z.object({}), (deps) => {
    const removals = keyedQueue({
      concurrency: 1,
      look: async () => void (await sweepDownloads(deps)),
      onError: (error) => deps.log.warn({ err: error }, 'could not empty what was removed; trying again later'),
    })
    return {
      tasks: [{ name: 'downloads', run: (_, signal) => sweepDownloads(deps, { signal }) }],
      // Something has ended: its files go now, not with the next sweep.
      channels: { downloads: () => removals.add('all') },
      stop: () => removals.stop(),
    }
  }),
}
