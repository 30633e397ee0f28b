import { spawnSync } from 'node:child_process'
import { realpathSync } from 'node:fs'
import type { Log } from '../../lib/runtime/log.ts'
import { inOrder, neededPlaces, privateFolders } from './private-places.ts'

/** Puts a program behind the walls that a container would have. */
export interface Isolation {
  /**
   * The command that runs `words`; of the hidden folders they see the pod's own, this repository, and the programs in
   * `searchPath`.
   */
  wrap(words: readonly string[], pod: { folder: string; searchPath: string }): string[]
}

/**
 * In namespaces of its own: empties each hidden folder, puts back what is kept, and makes the file systems of the machine
 * read-only but for the pod's folder, this checkout and the user's home included. Meanwhile all that is hidden can be
 * found below /sys, which every Linux has and no step needs.
 */
const SCRIPT = `set -e
root=$1; shift
if [ "$1" != -- ]; then
  mount --rbind / /sys
  while [ "$1" != -- ]; do
    if [ "$1" = hide ]; then
      # What lies in a hidden folder is gone, unless it was kept.
      if [ -d "$2" ]; then mount -t tmpfs -o mode=700,size=1m none "$2"; fi
      shift 2; continue
    fi
    if [ -d "/sys$3" ]; then
      mkdir -p "$2"; mount --rbind "/sys$3" "$2"
    elif [ ! -e "$2" ]; then
      mkdir -p "\${2%/*}"; : >"$2"; mount --bind "/sys$3" "$2"
    fi
    shift 3
  done
  umount -l /sys
  while read -r _ at _; do
    at=$(printf '%b' "$at")
    case $at in "$root"|/proc|/proc/*|/sys|/sys/*|/dev|/dev/*) ;; *) mount -o remount,bind,ro "$at" 2>/dev/null || : ;; esac
  done </proc/self/mounts
fi
shift
cd "$root"
exec "$@"`

/**
 * Hides the folders, and with them those where this user's programs have their sockets; none when there are no folders. A
 * user namespace hides the memory and environment of this user's other processes: a process may look only into those of
 * its own namespace (ptrace(2)). Dropping all capabilities of the namespace keeps the program from unmounting what hides
 * the folders. Undefined, with a warning, where the system permits no user namespaces.
 */
export function openIsolation(folders: readonly string[], log: Log | undefined): Isolation | undefined {
  const hidden = folders.length === 0 ? [] : [...folders.map((folder) => realpathSync(folder)), ...privateFolders()]
  const isolation: Isolation = {
    wrap(words, { folder, searchPath }) {
      const root = realpathSync(folder)
      const places = inOrder(hidden, [...neededPlaces(hidden, searchPath), { path: folder, from: root }])
      return [
        ...['unshare', '--user', '--map-root-user', '--mount', '--', '/bin/sh', '-c', SCRIPT, 'isolate', root],
        ...places.flatMap((place) => Object.values(place)),
        ...['--', 'setpriv', '--bounding-set', '-all', '--inh-caps', '-all', '--no-new-privs'],
        // After the new namespace, which clears the signal of a process that had one.
        ...['--pdeathsig', 'KILL', '--', ...words],
      ]
    },
  }
  const [file = '', ...args] = isolation.wrap(['true'], { folder: '/', searchPath: process.env['PATH'] ?? '' })
  const { status, stderr, error } = spawnSync(file, args, { stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' })
  if (status === 0) return isolation
  const why = error?.message ?? stderr.trim()
  log?.warn({ why }, 'no user namespaces: programs of Jobs can read the files and processes of this user')
  return undefined
}
