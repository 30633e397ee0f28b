import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type AppDeps, apiRoutes } from './app.ts'
import { CATALOG } from './features.ts'
import { describePermissions } from './http/permissions-document.ts'

/** `node api/generate-permissions.ts` writes docs/permissions.md from the rules and the routes. */
// No handler runs here, so the route factories never use what they read from this object.
const nothing: object = new Proxy({}, { get: () => nothing })
const text = describePermissions(CATALOG.actions, apiRoutes(nothing as AppDeps, '/v1'))
await writeFile(join(import.meta.dirname, '../docs/permissions.md'), text)
