export const RESULTS = [
  ['', 'Any'],
  ['success', 'Success'],
  ['failure', 'Failure'],
  ['denied', 'Denied'],
]

export const INITIAL = {
  actor_id: '',
  resource_id: '',
  org_id: '',
  action: '',
  result: '',
  ip_address: '',
  from: '',
  to: '',
  unsealed: false,
}

/** The body of a query: only what was filled in. Several actions are written with spaces or commas between them. */
export function filterOf({ unsealed, action, from, to, ...plain }) {
  const given = Object.entries(plain).flatMap(([name, value]) => (value.trim() ? [[name, value.trim()]] : []))
  const actions = action
    .toUpperCase()
    .split(/[\s,]+/)
    .filter(Boolean)
  return {
    ...Object.fromEntries(given),
    ...(actions.length > 0 && { action: actions }),
    ...(from && { from: new Date(from).toISOString() }),
    ...(to && { to: new Date(to).toISOString() }),
    ...(unsealed && { include_unsealed: true }),
  }
}

/** The beginning of an id: the whole one is in the details. */
export const nameOf = (id) => (id.length > 16 ? `${id.slice(0, 4)}…${id.slice(-6)}` : id)

export const timeOf = (iso) => new Date(iso).toLocaleString([], { dateStyle: 'medium', timeStyle: 'medium' })
