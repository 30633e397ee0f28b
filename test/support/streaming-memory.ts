import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { zeros } from './object-store-contract.ts'

const MIB = 1024 * 1024

/** How many MiB this process grew at most while it put four parts of 64 MiB at once. */
export async function growthOfFourParts(store: ObjectStore): Promise<number> {
  const size = 64 * MIB
  // Once before, so that connections and code are there already.
  const warm = await store.createMultipart('memory/warm', { contentType: 'video/mp4' })
  await store.putPart('memory/warm', warm, 1, zeros(MIB), { size: MIB })
  await store.abortMultipart('memory/warm', warm)

  const before = process.memoryUsage().rss
  let peak = before
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss)
  }, 5)
  const id = await store.createMultipart('memory/big', { contentType: 'video/mp4' })
  await Promise.all([1, 2, 3, 4].map((n) => store.putPart('memory/big', id, n, zeros(size), { size })))
  clearInterval(timer)
  await store.abortMultipart('memory/big', id)
  return (peak - before) / MIB
}
