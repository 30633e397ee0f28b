import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type AppDeps, apiRoutes, describeApi, describeInternalApi, internalRoutes } from './app.ts'

/** `node api/generate-openapi.ts` writes api/openapi.json and api/openapi-internal.json from the routes. */
// No handler runs here, so the route factories never use what they read from this object.
const nothing: object = new Proxy({}, { get: () => nothing })
const deps = nothing as AppDeps
const documents = {
  'openapi.json': describeApi(apiRoutes(deps, '/v1'), '/v1'),
  'openapi-internal.json': describeInternalApi(internalRoutes(deps)),
}
for (const [name, document] of Object.entries(documents)) {
  await writeFile(join(import.meta.dirname, name), `${JSON.stringify(document, null, 2)}\n`)
}
