import { failpoint } from '../../lib/runtime/failpoint.ts'
import { AUDIO_NAME } from './encode-pass.ts'
import type { PassPlan } from './pass-plan.ts'
import { PLAYLIST_TYPE, type Publisher } from './publisher.ts'
import { earlyMasterEntry, masterPlaylistText } from './rendition-entries.ts'
import type { SegmentReader } from './verify.ts'

interface EarlyMaster {
  reader: SegmentReader
  publisher: Publisher
  targetSeconds: number
  /** Throws where a whole one is there, which this must not replace. */
  isNotConverted?: (() => Promise<void>) | undefined
  onPlayable: () => void
}

/** Publishes a first master playlist once video and audio each have a segment in the store: playback can then start. */
export function earlyMasterPublisher(
  { renditions: [rendition], withAudio, publishesEarly }: PassPlan,
  { reader, publisher, targetSeconds, isNotConverted, onPlayable }: EarlyMaster,
): () => Promise<void> {
  let isPublished = !publishesEarly
  return async () => {
    if (isPublished || !rendition) return
    const [video, audio] = [publisher.published(rendition.name), publisher.published(AUDIO_NAME)]
    const first = video[0]
    if (!first || (withAudio && audio.length === 0)) return
    const { codec } = await reader.read(first.uri)
    await isNotConverted?.()
    const described = earlyMasterEntry({ rendition, codec, segments: video }, withAudio ? audio : null, targetSeconds)
    await publisher.put('master.m3u8', masterPlaylistText([described], withAudio), PLAYLIST_TYPE)
    isPublished = true
    failpoint('job.playable')
    onPlayable()
  }
}
