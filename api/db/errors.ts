/** Whether a statement waited longer than `lock_timeout` for a lock. drizzle wraps the errors of pg. */
export function isLockTimeout(error: unknown): boolean {
  return error instanceof Error && ((error as { code?: unknown }).code === '55P03' || isLockTimeout(error.cause))
}
