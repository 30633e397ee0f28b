import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { clipOf } from './clips.ts'
import { frameColors } from './highlight-frames.ts'

const run = promisify(execFile)
const RATE = 48_000

/**
 * The path of a clip with one flash and one click at the same moment. Each frame of 29.97 and each packet of 44.1 kHz ends a little
 * off the highlight's frames: an error would add up.
 */
export function flashClip(): Promise<string> {
  const picture = "color=black:s=160x90:r=30000/1001:d=1.5,drawbox=c=white:t=fill:enable='between(t,0.7,0.799)'"
  const sound = "aevalsrc='0.6*sin(2*PI*1500*t)*between(t,0.7007,0.8)':s=44100:d=1.5"
  return clipOf([
    ...['-f', 'lavfi', '-i', picture, '-f', 'lavfi', '-i', sound, '-c:v', 'libx264', '-preset', 'ultrafast'],
    ...['-pix_fmt', 'yuv420p', '-c:a', 'aac'],
  ])
}

/**
 * When each flash is seen and each click is heard in a highlight of such clips, in seconds of the streams' own time. Picture
 * and sound are read from their own playlists, as a player does. A flash can be seen only at a frame of the highlight.
 */
export async function flashesAndClicks(folder: string): Promise<{ flashes: number[]; clicks: number[] }> {
  const picture = join(folder, '180p.m3u8')
  const origin = await firstPts(picture, 'v')
  const bright = (await frameColors(picture)).map(([r]) => r > 128)
  const flashes = bright.flatMap((is, k) => (is && !bright[k - 1] ? [origin + k / 30] : []))
  return { flashes, clicks: await clicksOf(join(folder, 'audio.m3u8')) }
}

async function firstPts(playlist: string, stream: 'v' | 'a'): Promise<number> {
  const entries = ['-select_streams', `${stream}:0`, '-show_entries', 'packet=pts_time', '-of', 'csv=p=0']
  const { stdout } = await run('ffprobe', ['-v', 'error', '-read_intervals', '%+#8', ...entries, playlist])
  return Math.min(...stdout.split('\n').filter(Boolean).map(Number.parseFloat))
}

/** Where the sound becomes loud. */
async function clicksOf(playlist: string): Promise<number[]> {
  const { stdout } = await run(
    'ffmpeg',
    ['-nostdin', '-v', 'error', '-i', playlist, '-ac', '1', '-ar', String(RATE), '-f', 's16le', '-'],
    { encoding: 'buffer', maxBuffer: 1 << 26 },
  )
  const origin = await firstPts(playlist, 'a')
  const clicks: number[] = []
  for (let at = 0, last = -RATE; at < stdout.length / 2; at++) {
    if (Math.abs(stdout.readInt16LE(at * 2)) < 6000) continue
    if (at - last > RATE / 4) clicks.push(origin + at / RATE)
    last = at
  }
  return clicks
}
