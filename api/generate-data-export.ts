import { writeFile } from 'node:fs/promises'
import * as z from 'zod'
import type { ExportContent } from './features/data-exports/content.ts'
import { contentsOf } from './features/data-exports/contents.ts'
import { documentOf } from './features/data-exports/document.ts'
import { FEATURES } from './features.ts'

/** Writes the JSON Schemas of `data.json`, what a person gets of their own, and of `event.json`: `npm run gen`. */
const { own, event } = contentsOf(FEATURES.map((feature) => feature.export))
const write = (name: string, content: ExportContent) =>
  writeFile(
    `docs/${name}.schema.json`,
    `${JSON.stringify(z.toJSONSchema(documentOf(content), { io: 'output' }), null, 2)}\n`,
  )
await write('data-export', own)
await write('event-export', event)
