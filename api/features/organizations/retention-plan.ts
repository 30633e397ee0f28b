/** An organization keeps archived events no longer than this by its own setting. */
export const MAX_EVENT_RETENTION_YEARS = 30
