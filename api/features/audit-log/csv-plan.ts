/** The columns of a file, in their order. */
export const COLUMNS = [
  'audit_id',
  'occurred_at',
  'actor_id',
  'action',
  'resource_type',
  'resource_id',
  'result',
  'org_id',
  'ip_address',
  'user_agent',
  'request_id',
  'client_request_id',
  'details',
  'personal',
  'personal_data',
  'sealed',
] as const

/** What a spreadsheet takes for the beginning of a formula, with the full-width forms, which some fold. */
const FORMULA = /^[=+\-@\t\r\n\0\uFF1D\uFF0B\uFF0D\uFF20]/

/** RFC 4180, every field quoted. Quotes alone do not keep a spreadsheet from computing a field: the apostrophe does. */
export function csvField(value: unknown): string {
  const text =
    value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value)
  const safe = FORMULA.test(text) ? `'${text}` : text
  return `"${safe.replaceAll('"', '""')}"`
}

export const csvRow = (row: Readonly<Record<string, unknown>>): string =>
  `${COLUMNS.map((name) => csvField(row[name])).join(',')}\r\n`

/** The byte order mark tells spreadsheets that it is UTF-8. */
export const CSV_HEAD = `\uFEFF${COLUMNS.map(csvField).join(',')}\r\n`
