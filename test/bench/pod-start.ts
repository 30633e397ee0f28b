import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { ensureBinaries } from '../cluster/driver/build.ts'
import { describeCluster } from '../cluster/driver/description.ts'
import { startNodeCluster } from '../cluster/driver/node.ts'
import { buildImage } from '../cluster/image/build.ts'

/**
 * What passes between the creation of a TranscodeJob and its first encoded frames: real pods of the product's image on a
 * real kubelet and containerd, the image already there. Needs what `npm run test:cluster` needs.
 */
const binaries = await ensureBinaries()
const image = await buildImage()
const cluster = await startNodeCluster()
try {
  await cluster.faults.loadImage(image.archive)
  const [program = '', ...args] = [...cluster.enter, process.execPath, join(import.meta.dirname, 'pod-start-child.ts')]
  const path = { PATH: `${binaries}:${process.env['PATH'] ?? ''}` }
  const env = { ...process.env, ...path, ...describeCluster(cluster, { kubectl: cluster.kubectlProgram }) }
  const [code] = (await once(spawn(program, args, { stdio: 'inherit', env }), 'exit')) as [number | null]
  process.exitCode = code ?? 1
} finally {
  await cluster.stop()
}
