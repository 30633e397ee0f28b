export interface Segment {
  uri: string
  seconds: number
}

export interface MediaPlaylist {
  segments: Segment[]
  ended: boolean
  /** The file that initializes all segments, where these are fragments of MP4. */
  map?: string
}

/** Parses a media playlist written by ffmpeg or by `formatMediaPlaylist`; undefined for any other text. */
export function parseMediaPlaylist(text: string): MediaPlaylist | undefined {
  const lines = text.split(/\r?\n/)
  if (lines[0] !== '#EXTM3U') return undefined
  const segments: Segment[] = []
  let [seconds, map]: [number?, string?] = []
  for (const line of lines.slice(1)) {
    const [, duration] = /^#EXTINF:([\d.]+)/.exec(line) ?? []
    if (duration !== undefined) seconds = Number(duration)
    else if (line.startsWith('#EXT-X-MAP:')) map = /^#EXT-X-MAP:URI="([a-z0-9-]+_init\.mp4)"$/.exec(line)?.[1]
    else if (line !== '' && !line.startsWith('#')) {
      if (seconds === undefined || !/^[a-z0-9-]+_\d{5}\.(?:ts|m4s)$/.test(line)) return undefined
      segments.push({ uri: line, seconds })
      seconds = undefined
    }
  }
  return { segments, ended: lines.includes('#EXT-X-ENDLIST'), ...(map !== undefined && { map }) }
}

/**
 * The playlist that clients get. The target duration never changes between versions, as RFC 8216 §6.2.1 requires.
 * EXT-X-START makes players start at the beginning while the encoder still appends segments.
 */
export function formatMediaPlaylist({ segments, ended, map }: MediaPlaylist, targetSeconds: number): string {
  const target = Math.max(targetSeconds, ...segments.map((s) => Math.round(s.seconds)))
  return [
    '#EXTM3U',
    `#EXT-X-VERSION:${map === undefined ? 6 : 7}`,
    `#EXT-X-TARGETDURATION:${target}`,
    '#EXT-X-MEDIA-SEQUENCE:0',
    '#EXT-X-PLAYLIST-TYPE:EVENT',
    '#EXT-X-INDEPENDENT-SEGMENTS',
    '#EXT-X-START:TIME-OFFSET=0',
    ...(map === undefined ? [] : [`#EXT-X-MAP:URI="${map}"`]),
    ...segments.flatMap((s) => [`#EXTINF:${s.seconds.toFixed(6)},`, s.uri]),
    ...(ended ? ['#EXT-X-ENDLIST'] : []),
    '',
  ].join('\n')
}
