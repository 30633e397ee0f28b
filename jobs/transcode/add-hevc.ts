import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ProbedSource } from '../ffmpeg/probe.ts'
import type { CopiedTop } from '../hls/copied-top.ts'
import { type EncodedLadder, emptyFolder } from '../hls/ladder-run.ts'
import { makeHevc } from '../hls/make-hevc.ts'
import type { Publisher } from '../hls/publisher.ts'
import { scanHevc } from '../hls/scan-top.ts'

export interface AddedHevc {
  name: string
  video: EncodedLadder['videos'][number]
  targetSeconds: number
}

interface HevcSource {
  source: ProbedSource
  sourcePath: string
  segmentSeconds: number
  /** Holds what is published already, and is emptied. */
  folder: string
  publisher: Publisher
  ladder: EncodedLadder
  signal: AbortSignal
  log: Log
}

/**
 * Serves the HEVC of an upload as it is, beside the renditions that are made of it. Where it cannot be, says why: no video
 * fails because of it. Undefined where the upload is not HEVC. Throws what the store refuses.
 */
export async function addHevc(given: HevcSource): Promise<AddedHevc | { fault: string } | undefined> {
  const { source, sourcePath, segmentSeconds, signal, folder, publisher } = given
  if (source.video.codec !== 'hevc') return undefined
  const copied = await scanHevc(sourcePath, { source, segmentSeconds, signal })
  if (typeof copied === 'string') return { fault: copied }
  if (!given.ladder.isWhole) return { fault: 'it is damaged' }
  const video = await makeIfPossible(given, copied)
  if (!video) return { fault: 'it is not what its packets promised' }
  await publisher.publishRest([copied.rendition.name])
  failpoint('job.hevc')
  await emptyFolder(folder)
  return { name: copied.rendition.name, video, targetSeconds: copied.targetSeconds }
}

async function makeIfPossible(given: HevcSource, copied: CopiedTop): Promise<AddedHevc['video'] | undefined> {
  const { folder, ladder, signal, log } = given
  // The copy may be as large as what the folder holds.
  await emptyFolder(folder)
  try {
    return await makeHevc({ ...given, copied, videos: ladder.videos })
  } catch (error) {
    signal.throwIfAborted()
    log.warn({ err: error }, 'the HEVC of the source does not serve as a rendition')
    await emptyFolder(folder)
    return undefined
  }
}
