import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import type { Log } from '../../lib/runtime/log.ts'

/** Puts a program behind the walls that a container would have. */
export interface Isolation {
  /** The command that runs `words`; of the hidden folders they see only `root`, the pod's own. */
  wrap(words: readonly string[], root: string): string[]
}

/**
 * In namespaces of its own: empties each folder but for the pod's, which it keeps open meanwhile, and makes the file
 * systems of the machine read-only, this checkout and the user's home included. `-c`, because the path of the descriptor
 * must not be resolved: it leads below what is hidden by then.
 */
const SCRIPT = `set -e
root=$1; shift
exec 3<"$root"
hides=
while [ "$1" != -- ]; do hides=1; mount -t tmpfs -o mode=700,size=1m none "$1"; shift; done
shift
mkdir -p "$root"; mount -c --bind /proc/self/fd/3 "$root"; cd "$root"; exec 3<&-
if [ -n "$hides" ]; then
  while read -r _ at _; do
    case $at in "$root"|/proc|/proc/*|/sys|/sys/*|/dev|/dev/*) ;; *) mount -o remount,bind,ro "$at" 2>/dev/null || : ;; esac
  done </proc/self/mounts
fi
exec "$@"`

/**
 * A user namespace hides the memory and environment of this user's other processes: a process may look only into those
 * of its own namespace (ptrace(2)). Dropping all capabilities of the namespace keeps the program from unmounting what
 * hides the folders. Undefined, with a warning, where the system permits no user namespaces.
 */
export function openIsolation(folders: readonly string[], log: Log | undefined): Isolation | undefined {
  const hidden = folders.map((folder) => resolve(folder))
  const isolation: Isolation = {
    wrap: (words, root) => [
      ...['unshare', '--user', '--map-root-user', '--mount', '--', '/bin/sh', '-c', SCRIPT, 'isolate', root],
      ...[...hidden, '--', 'setpriv', '--bounding-set', '-all', '--inh-caps', '-all', '--no-new-privs'],
      // After the new namespace, which clears the signal of a process that had one.
      ...['--pdeathsig', 'KILL', '--', ...words],
    ],
  }
  const [file = '', ...args] = isolation.wrap(['true'], hidden[0] ?? '/tmp')
  const { status, stderr, error } = spawnSync(file, args, { stdio: ['ignore', 'ignore', 'pipe'], encoding: 'utf8' })
  if (status === 0) return isolation
  const why = error?.message ?? stderr.trim()
  log?.warn({ why }, 'no user namespaces: programs of Jobs can read the files and processes of this user')
  return undefined
}
