import { mkdirSync, writeFileSync } from 'node:fs'
import * as z from 'zod'
import { EVENTS, type EventType, schemaUri } from './events.ts'

/** `node lib/contract/generate-events.ts` writes docs/events/ from the zod of the payloads. */
const folder = new URL('../../docs/events/', import.meta.url)
mkdirSync(folder, { recursive: true })
for (const type of Object.keys(EVENTS) as EventType[]) {
  const { $schema, ...rest } = z.toJSONSchema(EVENTS[type].payload, { io: 'output' })
  // Consumers must accept fields that a later version adds.
  delete rest.additionalProperties
  const schema = { $schema, $id: schemaUri(type), title: type, ...rest }
  writeFileSync(new URL(`${type}.json`, folder), `${JSON.stringify(schema, null, 2)}\n`)
}
