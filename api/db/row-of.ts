import type { SelectResultFields } from 'drizzle-orm/query-builders/select.types'

/** A row of a query that selects these columns. What an outer join leaves out, the type of the query knows alone. */
export type RowOf<Columns> = SelectResultFields<Columns>
