import type { ManifestRendition } from '../../lib/contract/manifest.ts'
import { toNumber } from '../ffmpeg/rational.ts'
import { averageBandwidth, peakBandwidth } from './bandwidth.ts'
import { AUDIO_BITRATE, AUDIO_NAME } from './encode-pass.ts'
import type { Rendition } from './ladder.ts'
import { AUDIO_CODEC, codecsOf, formatMasterPlaylist, type MasterEntry } from './master-playlist.ts'

interface Measured {
  bytes: number
  seconds: number
}

export interface EncodedVideo {
  rendition: Rendition
  codec: string
  segments: readonly Measured[]
}

const fileOf = (name: string) => `${name}.m3u8`

/** The master playlist's entry for a finished rendition; its bandwidth is measured and includes the audio. */
export function masterEntry(
  video: EncodedVideo,
  audio: readonly Measured[] | null,
  targetSeconds: number,
): MasterEntry {
  const sound = audio ?? []
  return {
    ...common(video),
    bandwidth: peakBandwidth(video.segments, targetSeconds) + peakBandwidth(sound, targetSeconds),
    averageBandwidth: averageBandwidth(video.segments) + averageBandwidth(sound),
  }
}

/** The entry of a rendition that is still being encoded: its peak is the encoder's limit plus 10 % for packaging. */
export function earlyMasterEntry(
  video: EncodedVideo,
  audio: readonly Measured[] | null,
  targetSeconds: number,
): MasterEntry {
  const measured = masterEntry(video, audio, targetSeconds)
  const ceiling = Math.ceil((video.rendition.maxrate + (audio ? AUDIO_BITRATE : 0)) * 1.1)
  return { ...measured, bandwidth: Math.max(measured.bandwidth, ceiling) }
}

const common = ({ rendition, codec }: EncodedVideo) => ({
  playlist: fileOf(rendition.name),
  width: rendition.width,
  height: rendition.height,
  frameRate: toNumber(rendition.frameRate),
  videoCodec: codec,
})

export const masterPlaylistText = (renditions: readonly MasterEntry[], hasAudio: boolean): string =>
  formatMasterPlaylist(renditions, hasAudio ? fileOf(AUDIO_NAME) : undefined)

/** The manifest's entry for a rendition. */
export const manifestEntry = (video: EncodedVideo, r: MasterEntry, hasAudio: boolean) => ({
  name: video.rendition.name,
  width: r.width,
  height: r.height,
  bandwidth: r.bandwidth,
  averageBandwidth: r.averageBandwidth,
  codecs: codecsOf(r, hasAudio),
  frameRate: Number(r.frameRate.toFixed(3)),
  playlist: r.playlist,
  segments: video.segments.length,
  bytes: video.segments.reduce((sum, s) => sum + s.bytes, 0),
})

const SOUND = `,${AUDIO_CODEC}`

/** The master playlist of H.264, as a manifest describes it. */
export function describedMaster(renditions: readonly ManifestRendition[]): string {
  const entries = renditions
    .filter(({ codecs }) => codecs.startsWith('avc1.'))
    .map((r) => ({ ...r, videoCodec: r.codecs.replace(SOUND, '') }))
  return masterPlaylistText(
    entries,
    renditions.some(({ codecs }) => codecs.endsWith(SOUND)),
  )
}
