import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { openS3Store } from '../../lib/runtime/object-store/s3.ts'
import { startRadosGateway } from '../support/services/radosgw.ts'

/**
 * `node test/bench/ceph-clusters.ts [ROUNDS]`: whether the Ceph clusters of the tests start reliably. Each round starts
 * two at once, each in a process of its own, then a third one right after they were stopped; each stores and reads an
 * object. Prints every failure, and how many there were.
 */
if (process.argv[2] === 'one') await useOne()
else await soak(Number(process.argv[2] ?? 20))

async function useOne(): Promise<void> {
  const gateway = await startRadosGateway()
  if (!gateway) throw new Error('Ceph is not installed')
  const store = openS3Store(gateway.s3)
  try {
    await store.put('a/b', 'kept', { contentType: 'text/plain' })
    const { body } = await store.get('a/b')
    if ((await text(body)) !== 'kept') throw new Error('the object came back changed')
  } finally {
    await store.close()
    await gateway.stop()
  }
}

async function soak(rounds: number): Promise<void> {
  const failures: string[] = []
  const seconds: number[] = []
  const one = async (what: string) => {
    const started = performance.now()
    const child = spawn(process.execPath, [import.meta.filename, 'one'], { stdio: ['ignore', 'inherit', 'pipe'] })
    const [complaint, [code]] = await Promise.all([text(child.stderr), once(child, 'close')])
    seconds.push((performance.now() - started) / 1000)
    if (code !== 0) failures.push(`${what}: ${complaint.slice(-2000)}`)
  }
  for (let round = 1; round <= rounds; round++) {
    await Promise.all([one(`round ${round}, first`), one(`round ${round}, second`)])
    await one(`round ${round}, third`)
    console.log(`round ${round} of ${rounds}: ${failures.length} failures`)
  }
  for (const failure of failures) console.error(failure)
  const slowest = Math.max(...seconds).toFixed(1)
  console.log(`${seconds.length} clusters, ${failures.length} failures, the slowest took ${slowest} s`)
  process.exitCode = failures.length > 0 ? 1 : 0
}
