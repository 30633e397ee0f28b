import * as z from 'zod'
import { Meta } from '../requests/schemas.ts'

const idOf = (schema: z.ZodType): string | undefined => z.globalRegistry.get(schema)?.id

const made = new WeakMap<z.ZodType, Map<string, z.ZodType>>()

/** `getMedia` → `GetMedia`. */
export const pascalCase = (operationId: string) => operationId.charAt(0).toUpperCase() + operationId.slice(1)

/** Makes a schema once per name: each component of the document has one name and one schema. */
function once(schema: z.ZodType, name: string, make: () => z.ZodType): z.ZodType {
  const byName = made.get(schema) ?? new Map<string, z.ZodType>()
  made.set(schema, byName)
  const known = byName.get(name) ?? make()
  byName.set(name, known)
  return known
}

/** The schema as a component: under its own name, or else under this one. Generated clients name their types so. */
export const named = (schema: z.ZodType, name: string): z.ZodType =>
  idOf(schema) === undefined ? once(schema, name, () => schema.meta({ id: name })) : schema

/** `{data, meta}`: `MediaResponse` around `Media`, and `ListMediaResponse` around unnamed data. */
export function envelopeOf(data: z.ZodType, operationId: string): z.ZodType {
  const own = idOf(data)
  const name = `${own ?? pascalCase(operationId)}Response`
  const inner = named(data, `${pascalCase(operationId)}Data`)
  return once(data, name, () => z.object({ data: inner, meta: Meta }).meta({ id: name }))
}
