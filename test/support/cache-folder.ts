import { homedir } from 'node:os'
import { join } from 'node:path'

/** Where tests keep what takes long to fetch or to build: in no checkout, so that all of them share it. */
export function cacheFolder(): string {
  const { KEEPSAKE_CACHE, XDG_CACHE_HOME } = process.env
  return KEEPSAKE_CACHE || join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'keepsake')
}
