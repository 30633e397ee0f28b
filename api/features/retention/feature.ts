import * as z from 'zod'
import type { Feature } from '../../feature.ts'
import { workerPart } from '../../worker/feature-worker.ts'
import { retentionCommands } from './administration.ts'
import { retentionPart } from './personal.ts'
import { retentionWorker } from './worker.ts'

/** Policies of retention, their runs and legal holds. What is retained is described by the features that have it. */
export const retention: Feature = {
  ...retentionPart,
  tags: {},
  routes: () => [],
  actions: [],
  export: { nothing: 'policies, runs and holds of the installation' },
  commands: retentionCommands,
  worker: workerPart(z.object({}), retentionWorker),
}
