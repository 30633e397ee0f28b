/** Whether a statement waited longer than `lock_timeout` for a lock. drizzle wraps the errors of pg. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && ((error as { code?: unknown }).code === '55P03' || isLockTimeout(error.cause))
}

/** Whether a statement would have broken this unique index. */
export function isUniqueViolation(error: unknown, index: string): boolean {
  if (!(error instanceof Error)) return false
  const { code, constraint } = error as { code?: unknown; constraint?: unknown }
  return (code === '23505' && constraint === index) || isUniqueViolation(error.cause, index)
}
