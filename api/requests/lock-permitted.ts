import { found } from './found.ts'

/**
 * The locked row, if the caller may perform the action on it. Decides on an unlocked read first: a caller who is refused
 * waits for no lock, and so holds no connection while others work on the row. Decides again on the locked row, which
 * may have changed meanwhile.
 */
export async function lockPermitted<T>(
  find: (lock: boolean) => Promise<T | undefined>,
  permit: (row: NoInfer<T>) => unknown,
): Promise<T> {
  permit(found(await find(false)))
  const row = found(await find(true))
  permit(row)
  return row
}
