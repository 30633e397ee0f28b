export interface MasterEntry {
  playlist: string
  width: number
  height: number
  frameRate: number
  /** Of the video stream, as its bytes say: `avc1.64001f`. */
  videoCodec: string
  /** Bits per second with the sound: the peak that RFC 8216 §4.3.4.2 defines, and the average. */
  bandwidth: number
  averageBandwidth: number
}

export const AUDIO_CODEC = 'mp4a.40.2'

export const codecsOf = (rendition: MasterEntry, hasAudio: boolean): string =>
  hasAudio ? `${rendition.videoCodec},${AUDIO_CODEC}` : rendition.videoCodec

/** The master playlist, smallest rendition first: players without a measurement begin with the first. */
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
