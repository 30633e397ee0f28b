import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type AppDeps, apiRoutes, describeApi } from './app.ts'

/** `node api/generate-openapi.ts` writes api/openapi.json from the routes. */
// No handler runs here, so the route factories never use what they read from this object.
const nothing: object = new Proxy({}, { get: () => nothing })
const document = describeApi(apiRoutes(nothing as AppDeps, '/v1'), '/v1')
await writeFile(join(import.meta.dirname, 'openapi.json'), `${JSON.stringify(document, null, 2)}\n`)
