import { join } from 'node:path'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Accelerator } from '../ffmpeg/accelerator.ts'
import type { ProbedSource } from '../ffmpeg/probe.ts'
import { presentationSeconds } from '../ffmpeg/source.ts'
import { badInput } from '../runtime/failure.ts'
import { AUDIO_NAME, type Preset, streamNames } from './encode-pass.ts'
import { refuseBroken } from './integrity.ts'
import type { Rendition } from './ladder.ts'
import { type PassPlan, planPasses } from './pass-plan.ts'
import { PLAYLIST_TYPE, type Publisher } from './publisher.ts'
import { type EncodedVideo, earlyMasterEntry, masterPlaylistText } from './rendition-entries.ts'
import { runEncodePass } from './run-encode-pass.ts'
import { segmentLayout, timelineOf } from './timeline.ts'
import { readStart, type VerifiedStream, verifyAudio, verifySameLength, verifyVideo } from './verify.ts'

export interface LadderRun {
  source: ProbedSource
  sourcePath: string
  ladder: readonly Rendition[]
  segmentSeconds: number
  folder: string
  publisher: Publisher
  accelerator: Accelerator['kind']
  cores: number
  preset: Preset
  signal: AbortSignal
  onProgress: (fraction: number) => void
  onPlayable: () => void
}

export interface EncodedLadder {
  videos: EncodedVideo[]
  audio: VerifiedStream | null
}

/**
 * Encodes, verifies and publishes all renditions. The master playlist lists only the first of them so far. Throws a
 * PermanentError when the source turns out to be broken, which the first pass already detects.
 */
export async function runLadder(run: LadderRun): Promise<EncodedLadder> {
  const seconds = presentationSeconds(run.source)
  const plans = planPasses(run.ladder, { ...run.source, seconds, hasAudio: run.source.audio !== null })
  const videos: (EncodedVideo & { frames: number })[] = []
  let audio: VerifiedStream | null = null
  let done = 0
  for (const plan of plans) {
    const made = await encodeAndVerify(run, plan, (fraction) => run.onProgress(done + fraction * plan.weight))
    videos.push(...made.videos)
    audio ??= made.audio
    done += plan.weight
  }
  verifySameLength(videos)
  failpoint('job.encoded')
  return { videos, audio }
}

async function encodeAndVerify(run: LadderRun, plan: PassPlan, onProgress: (fraction: number) => void) {
  const { source, publisher, folder, signal, cores, preset, accelerator } = run
  const timeline = timelineOf(run.ladder, run.segmentSeconds)
  const { renditions, withAudio } = plan
  const pass = { source, renditions, withAudio, timeline, accelerator, cores, preset }
  const early = earlyMasterPublisher(run, plan)
  const report = await runEncodePass({ ...run, pass, onProgress, onPublished: early })
  if (report.frames === 0) throw badInput('CorruptInput', 'The video has no frames that can be decoded')

  const layoutOf = (rendition: Rendition) => (frames: number) => segmentLayout(timeline, rendition.frameRate, frames)
  const videos = []
  for (const rendition of renditions) {
    const made = await verifyVideo(folder, rendition, layoutOf(rendition), signal)
    refuseBroken(source, report, { rendition, frames: made.frames })
    videos.push({ rendition, ...made })
  }
  const audio = withAudio ? await verifyAudio(folder, AUDIO_NAME, presentationSeconds(source)) : null
  await publisher.publishRest(streamNames(pass))
  await early()
  return { videos, audio }
}

/** Publishes a first master playlist once video and audio each have a segment in the store: playback can then start. */
function earlyMasterPublisher(run: LadderRun, plan: PassPlan): () => Promise<void> {
  const [rendition] = plan.renditions
  let isPublished = !plan.publishesEarly
  return async () => {
    if (isPublished || !rendition) return
    const [video, audio] = [run.publisher.published(rendition.name), run.publisher.published(AUDIO_NAME)]
    const first = video[0]
    if (!first || (plan.withAudio && audio.length === 0)) return
    const codec = (await readStart(join(run.folder, first.uri)))?.codec
    if (!codec) return
    const described = earlyMasterEntry(
      { rendition, codec, segments: video },
      plan.withAudio ? audio : null,
      run.segmentSeconds,
    )
    await run.publisher.put('master.m3u8', masterPlaylistText([described], plan.withAudio), PLAYLIST_TYPE)
    isPublished = true
    failpoint('job.playable')
    run.onPlayable()
  }
}
