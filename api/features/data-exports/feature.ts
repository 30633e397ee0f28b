import * as z from 'zod'
import type { Feature } from '../../feature.ts'
import type { OwnData } from '../../requests/own-data.ts'
import { workerPart } from '../../worker/feature-worker.ts'
import { dataExportCommands } from './administration.ts'
import { contentsOf } from './contents.ts'
import { dataExportsPart } from './erasure.ts'
import { eventExportRoutes } from './event-routes.ts'
import { dataExportActions, eventExportActions } from './policy.ts'
import { dataExportRoutes } from './routes.ts'
import { dataExportWorker } from './worker.ts'

/** `all`: what each feature has of a person, which is asked for when all features are known. */
export const dataExports = (all: () => readonly OwnData[]): Feature => ({
  ...dataExportsPart,
  tags: { Privacy: 'What a person can do with their own data.' },
  routes: (deps) => [...dataExportRoutes(deps), ...eventExportRoutes(deps)],
  actions: [...Object.values(dataExportActions), ...Object.values(eventExportActions)],
  export: { nothing: 'copies of what other features keep' },
  commands: dataExportCommands,
  worker: workerPart(z.object({}), (deps) => dataExportWorker(deps, contentsOf(all()))),
})
