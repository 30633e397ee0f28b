import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** Clips live here between runs: making them costs more than most tests. Change the number when a recipe changes. */
const CACHE = join(tmpdir(), `keepsake-clips-${userInfo().uid}-4`)

/** https://www.sqlite.org/rescode.html#busy */
const SQLITE_BUSY = 5

const picture = (size: string, rate: string | number, seconds: number) => [
  '-f',
  'lavfi',
  '-i',
  `testsrc2=s=${size}:r=${rate}:d=${seconds}`,
]
const sound = (seconds: number, options = '') => ['-f', 'lavfi', '-i', `sine=f=440:d=${seconds}${options}`]
/** An encoder of sound does four times as much for a tone. */
const silence = (seconds: number) => ['-f', 'lavfi', '-i', `anullsrc=d=${seconds}`]
const h264 = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p']
const aac = ['-c:a', 'aac', '-b:a', '64k']
const phone = [
  ...['-metadata', 'creation_time=2024-05-17T10:20:30Z'],
  ...['-metadata', 'location=+48.1351+011.5820+519.0/', '-metadata', 'location-eng=+48.1351+011.5820+519.0/'],
  ...['-metadata', 'make=Acme', '-metadata', 'model=Phone 3'],
]

type Recipe =
  | { args: string[]; extension: string }
  | { of: string; change: (bytes: Buffer) => Buffer; extension: string }

/** Sound at the beginning of every six seconds: encoding silence costs a fifth. */
const beeps = (seconds: number) => sound(seconds, ",volume='lt(mod(t,6),0.2)':eval=frame")
/** A picture and sound that cost little to encode, for chunks of thirty seconds. */
const bars = (seconds: number): Recipe => ({
  args: [
    ...['-f', 'lavfi', '-i', `smptebars=s=720x720:r=10:d=${seconds}`, ...beeps(seconds)],
    ...['-c:v', 'libx264', '-preset', 'superfast', '-g', '200', '-crf', '30', '-pix_fmt', 'yuv420p', ...aac],
  ],
  extension: 'mp4',
})

interface Messaged {
  size: string
  rate: number
  seconds: number
  /** When the scene changes, in seconds. */
  changes: number
  bits: string
}

/** As a messenger sends it: B-frames, keyframes where scenes change, and an encoder that says who made it. */
const messaged = ({ size, rate, seconds, changes, bits }: Messaged, heard: string[]): Recipe => ({
  args: [
    ...[...picture(size, rate, seconds), ...heard],
    ...['-vf', `hue=h='if(gte(t,${changes}),180,0)',negate=enable='gte(t,${changes})'`],
    ...['-c:v', 'libx264', '-preset', 'veryfast', '-b:v', bits, '-pix_fmt', 'yuv420p', ...aac],
    ...['-bsf:v', 'h264_metadata=sei_user_data=086f3693-b7b3-4f2c-9653-21492feee5b8+canary-of-a-place'],
  ],
  extension: 'mp4',
})

const RECIPES = {
  /** 13 s of 1080p with everything a phone writes about its owner: three renditions, two passes. */
  landscape: {
    args: [...picture('1440x1080', 10, 13), ...sound(13), ...h264, '-g', '30', ...aac, ...phone],
    extension: 'mov',
  },
  /** The same of a picture and a sound that cost little to encode. */
  landscapeBars: {
    args: [
      ...['-f', 'lavfi', '-i', 'smptebars=s=1440x1080:r=10:d=13', ...silence(13)],
      ...[...h264, '-g', '30', ...aac, ...phone],
    ],
    extension: 'mov',
  },
  /** Two renditions of it, two passes, and playable before its end. Its keyframes are too rare for copying it. */
  sparse: { args: [...picture('960x720', 10, 13), ...sound(13), ...h264, '-g', '200', ...aac], extension: 'mp4' },
  /** The same of a picture and a sound that cost little to encode. */
  sparseBars: {
    args: ['-f', 'lavfi', '-i', 'smptebars=s=960x720:r=10:d=13', ...silence(13), ...h264, '-g', '200', ...aac],
    extension: 'mp4',
  },
  /** Two minutes, long enough for one process to take over from the first pass; a picture that costs little to encode. */
  longSparse: {
    args: [
      ...['-f', 'lavfi', '-i', 'smptebars=s=960x720:r=10:d=120', ...sound(120), ...h264, '-g', '200', ...aac],
      ...['-movflags', '+faststart'],
    ],
    extension: 'mp4',
  },
  /** The same, hardly to be heard. */
  longBeeps: {
    args: [
      ...['-f', 'lavfi', '-i', 'smptebars=s=960x720:r=10:d=120', ...beeps(120), ...h264, '-g', '200', ...aac],
      ...['-movflags', '+faststart'],
    ],
    extension: 'mp4',
  },
  /** Without sound, which costs half as much. */
  longStill: {
    args: [
      ...['-f', 'lavfi', '-i', 'smptebars=s=720x720:r=10:d=120', ...h264, '-g', '200'],
      ...['-movflags', '+faststart'],
    ],
    extension: 'mp4',
  },
  messaged: messaged({ size: '720x720', rate: 10, seconds: 13, changes: 7.3, bits: '1500k' }, sound(13)),
  /** The same in five seconds, without a sound to hear. */
  messagedShort: messaged({ size: '720x720', rate: 10, seconds: 5.4, changes: 2.6, bits: '1500k' }, silence(5.4)),
  messagedSmall: messaged({ size: '180x180', rate: 10, seconds: 13, changes: 7.3, bits: '300k' }, silence(13)),
  /** As a phone writes it, held level: HEVC with keyframes that close, and an encoder that says who made it. */
  phoneHevc: {
    args: [
      ...[...picture('640x480', 10, 5), ...silence(5), '-c:v', 'libx265', '-preset', 'ultrafast', '-b:v', '700k'],
      ...['-x265-params', 'log-level=error:keyint=20:min-keyint=20:open-gop=0:bframes=3', '-tag:v', 'hvc1'],
      ...['-pix_fmt', 'yuv420p', ...aac, ...phone],
      ...['-bsf:v', 'hevc_metadata=aud=insert'],
    ],
    extension: 'mov',
  },
  /** Its parameter sets stand before each keyframe as well. */
  repeatedHevc: {
    args: [
      ...[...picture('640x360', 30, 3), '-c:v', 'libx265', '-preset', 'ultrafast', '-tag:v', 'hev1'],
      ...['-x265-params', 'log-level=error:keyint=30:min-keyint=30:open-gop=0:bframes=0:repeat-headers=1'],
      ...['-pix_fmt', 'yuv420p'],
    ],
    extension: 'mp4',
  },
  /** Pictures before a keyframe need those of the group before it. */
  openHevc: {
    args: [
      ...[
        ...picture('640x360', 30, 3),
        '-c:v',
        'libx265',
        '-preset',
        'ultrafast',
        '-tag:v',
        'hvc1',
        '-pix_fmt',
        'yuv420p',
      ],
      ...['-x265-params', 'log-level=error:keyint=30:min-keyint=30:open-gop=1:bframes=3'],
    ],
    extension: 'mp4',
  },
  /** Long enough for several pods: two renditions, pictures in another order, an index at its end, and keyframes too rare for copying it. */
  shared62: {
    args: [
      ...[...picture('720x720', 10, 62), ...sound(62), '-c:v', 'libx264', '-preset', 'superfast', '-g', '200'],
      ...['-crf', '30', '-pix_fmt', 'yuv420p', ...aac],
    ],
    extension: 'mp4',
  },
  /** As `sparse`, of a picture that costs little to encode. */
  bars13: bars(13),
  /** Two chunks, the last one as short as one can be. */
  bars40: bars(40),
  /** Three chunks, of which many pods would make the last two with the smallest rendition. */
  bars72: bars(72),
  /** The same in four chunks. */
  bars100: bars(100),
  /** As `bars40` in HEVC, which is served beside its renditions. */
  barsHevc40: {
    args: [
      ...['-f', 'lavfi', '-i', 'smptebars=s=720x720:r=10:d=40', ...beeps(39.5)],
      ...['-c:v', 'libx265', '-preset', 'ultrafast', '-tag:v', 'hvc1', '-pix_fmt', 'yuv420p'],
      ...['-x265-params', 'log-level=error:keyint=60:min-keyint=60:open-gop=0:bframes=3', ...aac],
    ],
    extension: 'mp4',
  },
  portrait: { args: [...picture('406x720', 30, 1), ...sound(1), ...h264, ...aac], extension: 'mp4' },
  /** Stored lying, shown standing: 640x360 with a display matrix. */
  upright: { args: [...picture('640x360', 30, 1), ...sound(1), ...h264, ...aac], extension: 'mp4' },
  silent: { args: [...picture('640x360', 25, 2), ...h264], extension: 'mp4' },
  /** 30 frames per second for two seconds, then 10. */
  variable: {
    args: [
      ...[...picture('320x180', 30, 4), ...sound(4)],
      ...['-vf', "select='if(lt(t,2),1,not(mod(n,3)))'", '-fps_mode', 'vfr', ...h264, ...aac],
    ],
    extension: 'mp4',
  },
  ntsc: { args: [...picture('640x360', '30000/1001', 14), ...sound(14), ...h264, ...aac], extension: 'mp4' },
  fast: { args: [...picture('1280x720', 60, 3), ...sound(3), ...h264, ...aac], extension: 'mp4' },
  /** The nightmare of boundaries: 59.94 beside 29.97. */
  fastNtsc: { args: [...picture('1080x1080', '60000/1001', 6.5), ...h264], extension: 'mp4' },
  hdr: {
    args: [
      ...[...picture('640x360', 24, 1), '-pix_fmt', 'yuv420p10le', '-c:v', 'libx265', '-preset', 'ultrafast'],
      ...['-x265-params', 'log-level=error', '-tag:v', 'hvc1'],
      ...['-color_primaries', 'bt2020', '-color_trc', 'arib-std-b67', '-colorspace', 'bt2020nc'],
    ],
    extension: 'mp4',
  },
  tiny: { args: [...picture('64x36', 15, 1), ...h264], extension: 'mp4' },
  short: { args: [...picture('320x240', 30, 0.5), ...sound(0.5), ...h264, ...aac], extension: 'mp4' },
  /** Long enough to be playable before its end, and cheap. */
  early: { args: [...picture('320x240', 10, 13), ...sound(13), ...h264, '-g', '30', ...aac], extension: 'mp4' },
  /** The same with a silence in place of the sound. */
  earlySilence: {
    args: [...picture('320x240', 10, 13), ...silence(13), ...h264, '-g', '30', ...aac],
    extension: 'mp4',
  },
  /** 4:4:4 with an odd number of lines and columns. */
  odd: {
    args: [...picture('241x427', 30, 1), '-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv444p'],
    extension: 'mp4',
  },
  /** Pixels twice as wide as high. */
  wide: { args: [...picture('320x360', 25, 1), '-vf', 'setsar=2/1', ...h264], extension: 'mp4' },
  webm: {
    args: [
      ...picture('160x120', 25, 1),
      ...sound(1),
      '-c:v',
      'libvpx',
      '-deadline',
      'realtime',
      '-cpu-used',
      '8',
      '-c:a',
      'libopus',
    ],
    extension: 'webm',
  },
  /** As browsers record: no duration anywhere. */
  recorded: {
    args: [
      ...picture('160x120', 25, 1),
      '-c:v',
      'libvpx',
      '-deadline',
      'realtime',
      '-cpu-used',
      '8',
      '-live',
      '1',
      '-f',
      'webm',
    ],
    extension: 'webm',
  },
  /** The sound goes on for two seconds after the picture. */
  longSound: { args: [...picture('320x240', 25, 1), ...sound(3), ...h264, ...aac], extension: 'mp4' },
  shortSound: { args: [...picture('320x240', 25, 3), ...sound(1), ...h264, ...aac], extension: 'mp4' },
  streamable: {
    args: [...picture('640x360', 30, 8), ...sound(8), ...h264, '-g', '30', ...aac, '-movflags', '+faststart'],
    extension: 'mp4',
  },
  truncated: { of: 'streamable', change: (b: Buffer) => b.subarray(0, Math.floor(b.length * 0.6)), extension: 'mp4' },
  /** Of its two minutes, 48 seconds are left. */
  longStillCut: {
    of: 'longStill',
    change: (b: Buffer) => b.subarray(0, Math.floor(b.length * 0.56)),
    extension: 'mp4',
  },
  damaged: { of: 'streamable', change: (b: Buffer) => flipBits(b, 400), extension: 'mp4' },
  brief: {
    args: [...picture('640x360', 30, 2), ...sound(2), ...h264, '-g', '30', ...aac, '-movflags', '+faststart'],
    extension: 'mp4',
  },
  /** A scratch that people overlook. */
  scratchedBrief: { of: 'brief', change: (b: Buffer) => flipBits(b, 1), extension: 'mp4' },
  headless: { of: 'landscape', change: (b: Buffer) => b.subarray(0, Math.floor(b.length / 2)), extension: 'mov' },
  /** Two frames, nearly four hours apart: 3 KB that would become 140,010 frames of each rendition. */
  farApart: {
    args: [
      ...[...picture('64x36', 1, 2), '-vf', "settb=1,setpts='if(eq(N,0),0,14000)'", '-fps_mode', 'vfr', ...h264],
      ...['-video_track_timescale', '1000'],
    ],
    extension: 'mp4',
  },
  /** The same in a container that names a frame rate, which is not true. */
  farApartWebm: {
    args: [
      ...[...picture('160x120', 1, 2), '-vf', "settb=1,setpts='if(eq(N,0),0,14000)'", '-fps_mode', 'vfr'],
      ...['-c:v', 'libvpx', '-deadline', 'realtime', '-cpu-used', '8'],
    ],
    extension: 'webm',
  },
  /** A slide show: a picture every five seconds for half a minute. */
  slides: {
    args: [
      ...[...picture('320x180', 1, 6), ...sound(30), '-vf', "settb=1,setpts='5*N'", '-fps_mode', 'vfr'],
      ...[...h264, ...aac, '-video_track_timescale', '1000'],
    ],
    extension: 'mp4',
  },
  /** A screen recorded for six minutes: ten pictures in each tenth second, then one a second. */
  screen: {
    args: [
      ...[...picture('320x180', 10, 360), '-vf', "select='lt(mod(t,10),1)+not(mod(n,10))'", '-fps_mode', 'vfr'],
      ...[...h264, '-video_track_timescale', '1000'],
    ],
    extension: 'mp4',
  },
  exotic: { args: [...picture('320x180', 25, 1), '-c:v', 'magicyuv'], extension: 'mkv' },
  audioOnly: { args: [...sound(1), ...aac], extension: 'm4a' },
} satisfies Record<string, Recipe>

export type ClipName = keyof typeof RECIPES | 'rotated' | 'cover' | 'resized' | 'resizedTurned'

/** The path of a clip, made once per machine. */
export async function clip(name: ClipName): Promise<string> {
  const made = { rotated: 'mp4', cover: 'mp4', resized: 'mkv', resizedTurned: 'mp4' }
  const extension = name in made ? made[name as keyof typeof made] : RECIPES[name as keyof typeof RECIPES].extension
  return madeOnce(`${name}.${extension}`, (path) => make(name, path))
}

/** The path of what ffmpeg makes of these arguments, once per machine. */
export async function clipOf(args: readonly string[], extension = 'mp4'): Promise<string> {
  const digest = createHash('sha256').update(JSON.stringify(args)).digest('hex').slice(0, 16)
  return madeOnce(`${digest}.${extension}`, (path) => ffmpeg([...args, path]))
}

/**
 * Of processes that want the same file, or folder, at once, one makes it and the others wait. The kernel releases the lock
 * (through SQLite, as `local/folder-lock.ts` says) when a process ends in any way.
 */
export async function madeOnce(file: string, work: (path: string) => Promise<void>): Promise<string> {
  await mkdir(CACHE, { recursive: true })
  const path = join(CACHE, file)
  for (; !(await exists(path)); await sleep(50)) {
    const lock = new DatabaseSync(`${path}.lock`, { timeout: 0 })
    const folder = await mkdtemp(join(CACHE, 'making-'))
    try {
      lock.exec('begin exclusive')
      if (await exists(path)) break
      const made = join(folder, file)
      await work(made)
      await rename(made, path)
    } catch (error) {
      if ((error as { errcode?: number }).errcode !== SQLITE_BUSY) throw error
    } finally {
      lock.close()
      await rm(folder, { recursive: true, force: true })
    }
  }
  return path
}

async function make(name: ClipName, path: string): Promise<void> {
  if (name === 'rotated') {
    await ffmpeg(['-i', await clip('upright'), '-c', 'copy', '-metadata:s:v', 'rotate=90', path])
    return
  }
  if (name === 'cover') {
    const art = [...picture('160x160', 1, 1), '-i', await clip('audioOnly')]
    await ffmpeg([
      ...art,
      '-map',
      '1:a',
      '-map',
      '0:v',
      '-c:a',
      'copy',
      '-c:v',
      'mjpeg',
      '-frames:v',
      '1',
      '-disposition:v:0',
      'attached_pic',
      path,
    ])
    return
  }
  if (name === 'resized') return resize(path)
  if (name === 'resizedTurned') {
    // The matrix of a phone held upright.
    await ffmpeg(['-i', await clip('resized'), '-c', 'copy', '-metadata:s:v', 'rotate=270', path])
    return
  }
  const recipe: Recipe = RECIPES[name]
  if ('args' in recipe) await ffmpeg([...recipe.args, path])
  else await writeFile(path, recipe.change(await readFile(await clip(recipe.of as ClipName))))
}

/** As a browser records a phone that is turned for the second of three seconds: the pictures of one stream have two sizes. */
async function resize(path: string): Promise<void> {
  const part = (size: string) =>
    clipOf([...picture(size, 30, 1), ...h264, '-g', '30', '-bsf:v', 'h264_mp4toannexb'], 'ts')
  const [lying, standing] = [await part('320x180'), await part('180x320')]
  await ffmpeg(['-i', `concat:${lying}|${standing}|${lying}`, '-c', 'copy', path])
}

/** For making things that a test wants only once. */
export async function ffmpeg(args: readonly string[]): Promise<void> {
  await run('ffmpeg', ['-nostdin', '-v', 'error', '-y', ...args], { maxBuffer: 1 << 24 })
}

/** Always the same bits, spread over the picture and sound data. */
function flipBits(bytes: Buffer, count: number): Buffer {
  const copy = Buffer.from(bytes)
  const from = copy.indexOf('mdat') + 200
  for (let i = 0, x = 12345; i < count; i++) {
    x = (x * 1103515245 + 12345) % 2 ** 31
    const at = from + (x % (copy.length - from))
    copy.writeUInt8(copy.readUInt8(at) ^ (1 << (i % 8)), at)
  }
  return copy
}

const exists = (path: string) =>
  stat(path).then(
    () => true,
    () => false,
  )
