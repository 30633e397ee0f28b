import type { Feature } from '../../feature.ts'
import type { EraseStep } from '../../personal/part.ts'
import { workerPart } from '../../worker/feature-worker.ts'
import { erasureCommands } from './administration.ts'
import { erasurePart } from './part.ts'
import { erasureActions } from './policy.ts'
import { erasureRoutes } from './routes.ts'
import { ErasureSettings } from './settings.ts'
import { erasureGate, erasureWorker } from './worker.ts'

/** `steps`: those of all parts of the program, in the order of the list of features. */
export const erasure = (steps: () => readonly EraseStep[]): Feature => ({
  ...erasurePart,
  tags: { Erasure: 'Erasure of an account and of what the person has left (GDPR, Article 17).' },
  routes: erasureRoutes,
  actions: Object.values(erasureActions),
  export: { nothing: 'requests for erasure: the account ends with the first' },
  commands: erasureCommands,
  worker: workerPart(ErasureSettings, erasureWorker(steps), erasureGate),
})
