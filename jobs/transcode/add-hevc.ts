import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { ProbedPacket, ProbedSource } from '../ffmpeg/probe.ts'
import { makeHevc } from '../hls/make-hevc.ts'
import { type EncodedLadder, emptyFolder } from '../hls/one-pass.ts'
import type { Publisher } from '../hls/publisher.ts'
import { scanHevc } from '../hls/scan-top.ts'

export interface AddedHevc {
  name: string
  video: EncodedLadder['videos'][number]
  targetSeconds: number
}

interface HevcSource {
  source: ProbedSource
  /** Of its video, where they were listed already. */
  packets?: readonly ProbedPacket[] | undefined
  sourcePath: string
  segmentSeconds: number
  /** Holds what is published already, and is emptied. */
  folder: string
  store: ObjectStore
  prefix: string
  publisher: Pick<Publisher, 'publishRest'>
  ladder: Pick<EncodedLadder, 'videos' | 'isWhole'>
  /** Seconds that the ladder took. */
  wallSeconds: number
  signal: AbortSignal
  log: Log
}

/** What the ladder needed is known to fit into an attempt; half of it again is left for a rendition that no viewer waits for. */
const SHARE_OF_LADDER = 0.5
const LEAST_SECONDS = 60

/** Why the stream cannot be added, for people to read. */
class Unfit extends Error {}

/**
 * Serves the HEVC of an upload as it is, beside the renditions that are made of it. Where it cannot be, says why, and removes
 * what an earlier attempt may have published of it: no video fails because of it. Undefined where the upload is not HEVC.
 */
export async function addHevc(given: HevcSource): Promise<AddedHevc | { fault: string } | undefined> {
  if (given.source.video.codec !== 'hevc') return undefined
  const late = AbortSignal.timeout(1000 * Math.max(LEAST_SECONDS, SHARE_OF_LADDER * given.wallSeconds))
  try {
    return await add({ ...given, signal: AbortSignal.any([given.signal, late]) })
  } catch (error) {
    given.signal.throwIfAborted()
    given.log.warn({ err: error }, 'the HEVC of the source is not added')
    await removeHevc(given)
    if (error instanceof Unfit) return { fault: error.message }
    return { fault: late.aborted ? 'it takes too long' : 'it could not be made' }
  } finally {
    await emptyFolder(given.folder)
  }
}

async function add(given: HevcSource): Promise<AddedHevc> {
  const { source, sourcePath, segmentSeconds, packets, signal, folder, publisher, ladder } = given
  const copied = await scanHevc(sourcePath, { source, segmentSeconds, packets, signal })
  if (typeof copied === 'string') throw new Unfit(copied)
  if (!ladder.isWhole) throw new Unfit('it is damaged')
  // The copy may be as large as what the folder holds.
  await emptyFolder(folder)
  const video = await makeHevc({ ...given, copied, videos: ladder.videos }).catch((error: unknown) => {
    signal.throwIfAborted()
    throw new Unfit('it is not what its packets promised', { cause: error })
  })
  await publisher.publishRest([copied.rendition.name])
  failpoint('job.hevc')
  return { name: copied.rendition.name, video, targetSeconds: copied.targetSeconds }
}

/** Best effort: what is left is removed with the media item, and no manifest names it. */
async function removeHevc({ store, prefix, log }: HevcSource): Promise<void> {
  try {
    for await (const { key } of store.list(prefix)) {
      if (/^(master-hevc\.m3u8|[0-9]+p-hevc[._].*)$/.test(key.slice(prefix.length))) await store.delete(key)
    }
  } catch (error) {
    log.warn({ err: error, prefix }, 'could not remove the HEVC of an earlier attempt')
  }
}
