import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { openProxyStore } from '../../lib/runtime/object-store/proxy.ts'

/**
 * What the sidecar of a Job costs: the transfers of a conversion (its source, then its segments) through the store proxy,
 * in proportion to the same on the store behind it. A folder is the fastest store there is, so the ratio is the worst.
 */
const SOURCE_MIB = 512
const SEGMENTS = 200
const SEGMENT_MIB = 2
const ROUNDS = 3
const MIB = 1024 ** 2
const prefix = 'org/o/media/m/v1/'
const sourceKey = 'org/o/media/m/original'

const folder = await mkdtemp(join(tmpdir(), 'keepsake-bench-proxy-'))
const objects = join(folder, 'objects')
const socket = join(folder, 'socket')
const proxy = spawn(process.execPath, ['--max-semi-space-size=2', 'jobs/store-proxy/main.ts'], {
  env: {
    PATH: process.env['PATH'],
    STORE_KIND: 'folder',
    STORE_FOLDER: objects,
    STORE_GRANT: JSON.stringify({ read: [sourceKey], write: [prefix] }),
    STORE_SOCKET: socket,
  },
  stdio: ['ignore', 'ignore', 'inherit'],
})
const direct = openFolderStore({ folder: objects })
const through = openProxyStore({ socket })

/** Seconds of CPU, in clock ticks of 10 ms (proc(5)). */
const cpuOfProxy = () => {
  const stat = readFileSync(`/proc/${proxy.pid}/stat`, 'utf8')
  const [utime, stime] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 13)
  return (Number(utime) + Number(stime)) / 100
}
const peakOfProxy = () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${proxy.pid}/status`, 'utf8'))?.[1]) / 1024
const cpuOfMe = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

async function transfer(store: ObjectStore) {
  const before = { wall: performance.now(), cpu: cpuOfMe() + cpuOfProxy() }
  await store.download(sourceKey, join(folder, 'source'))
  const queue = Array.from({ length: SEGMENTS }, (_, n) => n)
  const worker = async () => {
    for (let n = queue.pop(); n !== undefined; n = queue.pop())
      await store.upload(join(folder, 'segment'), `${prefix}${n}.ts`, { contentType: 'video/mp2t' })
  }
  await Promise.all([worker(), worker(), worker(), worker()])
  return { wall: (performance.now() - before.wall) / 1000, cpu: cpuOfMe() + cpuOfProxy() - before.cpu }
}

try {
  await writeFile(join(folder, 'segment'), Buffer.alloc(SEGMENT_MIB * MIB, 1))
  await writeFile(join(folder, 'original'), Buffer.alloc(SOURCE_MIB * MIB, 2))
  await direct.upload(join(folder, 'original'), sourceKey, { contentType: 'video/mp4' })
  await through.check()
  const idle = peakOfProxy()
  console.log(`${SOURCE_MIB} MiB of source, ${SEGMENTS} segments of ${SEGMENT_MIB} MiB\n`)
  console.log('| round | folder: wall, s | CPU, s | through the proxy: wall, s | CPU, s | wall | CPU |')
  console.log('|---|---|---|---|---|---|---|')
  for (let round = 1; round <= ROUNDS; round++) {
    const [a, b] = [await transfer(direct), await transfer(through)]
    const row = [a.wall, a.cpu, b.wall, b.cpu, b.wall / a.wall, b.cpu / a.cpu].map((n) => n.toFixed(2))
    console.log(`| ${[round, ...row].join(' | ')} |`)
  }
  console.log(`\nMemory of the proxy: ${idle.toFixed(0)} MiB idle, ${peakOfProxy().toFixed(0)} MiB at most`)
} finally {
  await through.close()
  await direct.close()
  proxy.kill('SIGTERM')
  await once(proxy, 'exit')
  await rm(folder, { recursive: true, force: true })
}
