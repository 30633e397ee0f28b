import { writeFile } from 'node:fs/promises'
import * as z from 'zod'
import { documentOf } from './features/data-exports/document.ts'
import { sectionsOf } from './features/data-exports/worker.ts'
import { FEATURES } from './features.ts'

/** Writes the JSON Schema of `data.json`, what a person gets of their own: `npm run gen`. */
const schema = z.toJSONSchema(documentOf(sectionsOf(FEATURES.map((feature) => feature.export))), { io: 'output' })
await writeFile('docs/data-export.schema.json', `${JSON.stringify(schema, null, 2)}\n`)
