import { openSync } from 'node:fs'
import { basename, dirname } from 'node:path'

/** Bytes of a path in the kernel's sockaddr_un, without the final zero (unix(7)). */
const LONGEST = 107

/**
 * A path by which this process can listen at, or connect to, the Unix socket at `path`. A path that is too long for the
 * kernel is reached through a descriptor of its folder, which stays open as long as this process.
 */
export function socketAddress(path: string): string {
  if (Buffer.byteLength(path) <= LONGEST) return path
  return `/proc/self/fd/${openSync(dirname(path), 'r')}/${basename(path)}`
}
