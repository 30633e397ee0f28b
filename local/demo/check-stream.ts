import { spawn } from 'node:child_process'
import { once } from 'node:events'

export interface CheckedStream {
  renditions: { url: string; segments: number; bytes: number; seconds: number; decodedSeconds: number }[]
}

/** How much the duration may differ from the source's: the last frame's duration, and what audio encoders add. */
const TOLERANCE_SECONDS = 0.3

/**
 * Plays a stream as a strict player would: fetches every playlist and every segment of every rendition through its
 * link, then decodes each rendition completely. `tolerance` is how many seconds the duration may differ. Throws a sentence
 * about the first error.
 */
export async function checkStream(
  master: string,
  sourceSeconds: number,
  tolerance = TOLERANCE_SECONDS,
): Promise<CheckedStream> {
  const text = await fetchText(master)
  const variants = variantsOf(text, master).map((url) => ({ url, streams: ['0:v', '0:a?'] }))
  if (variants.length === 0) throw new Error('The master playlist lists no rendition')
  const sounds = soundsOf(text, master).map((url) => ({ url, streams: ['0:a'] }))
  const same = sameWithin(tolerance)
  const renditions: CheckedStream['renditions'] = []
  for (const { url, streams } of [...variants, ...sounds]) {
    const media = segmentsOf(await fetchText(url), url)
    if (media.segments.length === 0) throw new Error(`A media playlist lists no segment: ${url}`)
    let bytes = 0
    for (const part of [...media.initialization, ...media.segments]) bytes += await fetchBytes(part)
    const decodedSeconds = await decode(url, streams)
    same('The playlist', media.seconds, sourceSeconds)
    same('The decoded stream', decodedSeconds, sourceSeconds)
    renditions.push({ url, segments: media.segments.length, bytes, seconds: media.seconds, decodedSeconds })
  }
  return { renditions }
}

const sameWithin = (tolerance: number) => (what: string, seconds: number, wanted: number) => {
  if (Math.abs(seconds - wanted) <= tolerance) return
  throw new Error(`${what} lasts ${seconds.toFixed(2)} s, the source ${wanted.toFixed(2)} s`)
}

async function fetchOk(url: string): Promise<Response> {
  const response = await fetch(url)
  if (!response.ok) throw new Error(`${url} answered ${response.status}`)
  return response
}

async function fetchText(url: string): Promise<string> {
  const text = await (await fetchOk(url)).text()
  if (!text.startsWith('#EXTM3U')) throw new Error(`${url} is not a playlist`)
  return text
}

async function fetchBytes(url: string): Promise<number> {
  const { byteLength } = await (await fetchOk(url)).arrayBuffer()
  if (byteLength === 0) throw new Error(`${url} is empty`)
  return byteLength
}

const linesOf = (playlist: string) => playlist.split(/\r?\n/)

/** The URIs that follow the EXT-X-STREAM-INF lines (RFC 8216 §4.3.4.2). */
export function variantsOf(master: string, base: string): string[] {
  const lines = linesOf(master)
  return lines.filter((_, i) => lines[i - 1]?.startsWith('#EXT-X-STREAM-INF:')).map((line) => new URL(line, base).href)
}

/** The playlists of sound that stands beside the renditions (RFC 8216 §4.3.4.1). */
const soundsOf = (master: string, base: string): string[] =>
  [...master.matchAll(/^#EXT-X-MEDIA:TYPE=AUDIO,.*URI="([^"]+)"/gm)].map((m) => new URL(m[1] ?? '', base).href)

export function segmentsOf(playlist: string, base: string) {
  if (!/^#EXT-X-ENDLIST$/m.test(playlist)) throw new Error(`The playlist has no EXT-X-ENDLIST: ${base}`)
  const lines = linesOf(playlist)
  const durations = lines.flatMap((line) => /^#EXTINF:([\d.]+)/.exec(line)?.[1] ?? [])
  return {
    initialization: [...playlist.matchAll(/^#EXT-X-MAP:.*?URI="([^"]+)"/gm)].map((m) => new URL(m[1] ?? '', base).href),
    segments: lines.filter((line) => line !== '' && !line.startsWith('#')).map((line) => new URL(line, base).href),
    seconds: durations.reduce((sum, d) => sum + Number(d), 0),
  }
}

/** Decodes everything and returns the duration in seconds. Any complaint of ffmpeg is an error. */
async function decode(url: string, streams: readonly string[]): Promise<number> {
  // Segments may redirect to the object store, and ffmpeg reports an error when a kept connection changes its host.
  const args = [
    '-nostdin',
    '-v',
    'warning',
    '-xerror',
    '-http_persistent',
    '0',
    '-i',
    url,
    ...streams.flatMap((stream) => ['-map', stream]),
    '-f',
    'null',
    '-',
  ]
  const ffmpeg = spawn('ffmpeg', [...args, '-progress', 'pipe:1'], { stdio: ['ignore', 'pipe', 'pipe'] })
  let progress = ''
  let complaints = ''
  ffmpeg.stdout.setEncoding('utf8').on('data', (text: string) => {
    progress = (progress + text).slice(-4000)
  })
  ffmpeg.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaints = (complaints + text).slice(-4000)
  })
  const [code] = (await once(ffmpeg, 'close')) as [number | null]
  if (code !== 0 || complaints !== '') throw new Error(`ffmpeg could not play the stream:\n${complaints.trim()}`)
  const last = [...progress.matchAll(/^out_time_us=(\d+)$/gm)].at(-1)?.[1]
  return Number(last ?? 0) / 1e6
}

/** The duration of a file in seconds, by ffprobe. */
export async function durationOf(path: string): Promise<number> {
  const args = ['-v', 'error', '-show_entries', 'format=duration', '-of', 'default=nw=1:nk=1', path]
  const ffprobe = spawn('ffprobe', args, { stdio: ['ignore', 'pipe', 'ignore'] })
  let text = ''
  ffprobe.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  await once(ffprobe, 'close')
  const seconds = Number(text)
  if (!(seconds > 0)) throw new Error(`${path} is not a video that can be read`)
  return seconds
}
