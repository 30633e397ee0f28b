import { writeFile } from 'node:fs/promises'
import type { Log } from './log.ts'

/** The file that the kubelet mounts, and reads when the container has ended. */
export const KUBERNETES_LOG = '/dev/termination-log'

/** Writes the result of a program of a Job. A result that cannot be written is logged, and changes nothing else. */
export async function writeTerminationLog(path: string, text: string, log: Log): Promise<void> {
  // Outside Kubernetes the program must not create a file in /dev, so `r+` fails there instead.
  await writeFile(path, text, { flag: path === KUBERNETES_LOG ? 'r+' : 'w' }).catch((error: unknown) =>
    log.warn({ err: error, path }, 'could not write the result'),
  )
}
