import { Column, is, SQL, Subquery } from './orm.ts'

interface Decoder {
  mapFromDriverValue(value: unknown): unknown
}

/** A column of a result, as drizzle describes it: where its value goes, and what it is made of. */
export interface Field {
  path: readonly string[]
  field: unknown
}

type Row = Record<string, unknown>

/**
 * What drizzle's `mapResultRow` does, for rows without objects inside; undefined for others. Drizzle asks of each value
 * what kind of field it belongs to, along the prototypes of the field, which was a tenth of the CPU of a page. Here that
 * is decided once for each query.
 */
export function rowMapper(fields: readonly Field[]): ((rows: readonly unknown[][]) => Row[]) | undefined {
  if (fields.some(({ path }) => path.length !== 1)) return undefined
  const names = fields.map(({ path: [name = ''] }) => name)
  const decoders = fields.map(({ field }) => decoderOf(field))
  return (rows) =>
    rows.map((row) => {
      const result: Row = {}
      for (let i = 0; i < names.length; i++) {
        const raw = row[i]
        result[names[i] as string] = raw === null ? null : decoders[i]?.mapFromDriverValue(raw)
      }
      return result
    })
}

function decoderOf(field: unknown): Decoder {
  if (is(field, Column)) return field
  const sql = is(field, SQL) ? field : is(field, Subquery) ? field._.sql : (field as { sql: SQL }).sql
  // Not in the types of drizzle.
  return (sql as unknown as { decoder: Decoder }).decoder
}
