import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type AppDeps, apiRoutes, describeApi } from './app.ts'

/** `node api/generate-openapi.ts` writes api/openapi.json from the routes. */
// A description needs no dependencies: whatever a route factory picks from here is never used.
const nothing: object = new Proxy({}, { get: () => nothing })
const document = describeApi(apiRoutes(nothing as AppDeps, '/v1'), '/v1')
await writeFile(join(import.meta.dirname, 'openapi.json'), `${JSON.stringify(document, null, 2)}\n`)
