export interface MasterEntry {
  playlist: string
  width: number
  height: number
  frameRate: number
  /** RFC 6381, read from the encoded video stream: `avc1.64001f`. */
  videoCodec: string
  /** Bits per second, audio included: the peak as RFC 8216 §4.3.4.2 defines it, and the average. */
  bandwidth: number
  averageBandwidth: number
}

export const AUDIO_CODEC = 'mp4a.40.2'

export const codecsOf = (rendition: MasterEntry, hasAudio: boolean): string =>
  hasAudio ? `${rendition.videoCodec},${AUDIO_CODEC}` : rendition.videoCodec

/** The master playlist, smallest rendition first: players without a bandwidth estimate start with the first entry. */
export function formatMasterPlaylist(renditions: readonly MasterEntry[], audioPlaylist: string | undefined): string {
  const hasAudio = audioPlaylist !== undefined
  return [
    '#EXTM3U',
    '#EXT-X-VERSION:6',
    '#EXT-X-INDEPENDENT-SEGMENTS',
    ...(hasAudio
      ? [
          `#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="Audio",DEFAULT=YES,AUTOSELECT=YES,CHANNELS="2",URI="${audioPlaylist}"`,
        ]
      : []),
    ...renditions.flatMap((r) => [streamInf(r, hasAudio), r.playlist]),
    '',
  ].join('\n')
}

function streamInf(r: MasterEntry, hasAudio: boolean): string {
  const attributes = [
    `BANDWIDTH=${r.bandwidth}`,
    `AVERAGE-BANDWIDTH=${r.averageBandwidth}`,
    `CODECS="${codecsOf(r, hasAudio)}"`,
    `RESOLUTION=${r.width}x${r.height}`,
    `FRAME-RATE=${r.frameRate.toFixed(3)}`,
    'VIDEO-RANGE=SDR',
    ...(hasAudio ? ['AUDIO="audio"'] : []),
  ]
  return `#EXT-X-STREAM-INF:${attributes.join(',')}`
}
