import { join } from 'node:path'

/**
 * The clips of the quality benchmark: 6 s of 1080p30 each, one segment of the product. Each recipe names the files that
 * it needs from the folder of footage, and docs/benchmarks.md the packages that have them. All end as a camera would
 * write them, in H.264 of at most 20 Mbit/s: what the ladder sees of noise is what a camera leaves of it.
 */
export interface Clip {
  name: string
  needs: readonly string[]
  /** The inputs of ffmpeg and one filter graph whose output is `[v]`. */
  input: (path: (name: string) => string) => string[]
  graph: string
}

export const CLIP_SECONDS = 6
export const CLIP_RATE = 30
const FRAMES = CLIP_SECONDS * CLIP_RATE
const CAMERA = ['-c:v', 'libx264', '-preset', 'fast', '-crf', '12', '-maxrate', '20M', '-bufsize', '20M', '-bf', '0']

export const clipArguments = (clip: Clip, path: (name: string) => string, out: string): string[] => [
  ...['-nostdin', '-y', '-v', 'error', ...clip.input(path), '-filter_complex', clip.graph, '-map', '[v]', '-an'],
  ...['-frames:v', String(FRAMES), '-pix_fmt', 'yuv420p', ...CAMERA, '-threads', '2', out],
]

const REGULAR = `setpts=N/${CLIP_RATE}/TB,fps=${CLIP_RATE},setsar=1`
/** A hand that holds a camera: slow pan, and a tremble of a few pixels. */
const HAND = "crop=1920:1080:x='320+300*sin(n/110)+4*sin(n/5)+2*sin(n/2.3)':y='260+150*sin(n/140)+3*sin(n/4)'"
const TEXT = join(import.meta.dirname, '../../jobs/hls/args.ts')
const writing = (where: string, size: number) =>
  `drawtext=textfile=${TEXT}:expansion=none:font=monospace:fontsize=${size}:line_spacing=6:${where}`
const photo = (name: string) => (path: (name: string) => string) => [
  '-loop',
  '1',
  '-framerate',
  String(CLIP_RATE),
  '-t',
  String(CLIP_SECONDS),
  '-i',
  path(name),
]

export const CLIPS: readonly Clip[] = [
  {
    /** Six scenes of real footage beside each other in their own sizes: enlarged, they would have no detail that an encoder could lose. No Debian or Python package has 1080p. */
    name: 'footage',
    needs: ['vtest.avi', 'cup.mp4', 'box.mp4', 'bikes.mp4'],
    input: (path) => [
      ...['-i', path('vtest.avi'), '-i', path('cup.mp4'), '-i', path('box.mp4')],
      ...['-i', path('bikes.mp4'), '-ss', '3', '-i', path('bikes.mp4'), '-ss', '30', '-i', path('vtest.avi')],
    ],
    graph: [
      `[0:v]${REGULAR},crop=640:540[a]`,
      `[1:v]${REGULAR},scale=720:540,crop=640:540[b]`,
      `[2:v]${REGULAR},scale=720:540,crop=640:540[c]`,
      `[3:v]${REGULAR},crop=640:270[d];[4:v]${REGULAR},crop=640:270[e];[d][e]vstack[f]`,
      `[5:v]${REGULAR},crop=640:540:128:36[g];[2:v]${REGULAR},trim=start_frame=200,${REGULAR},crop=640:480,pad=640:540[h]`,
      '[a][b][c]hstack=3[top];[f][g][h]hstack=3[bottom];[top][bottom]vstack[v]',
    ].join(';'),
  },
  {
    name: 'grain',
    needs: ['boats.jpg'],
    input: photo('boats.jpg'),
    graph: `[0:v]${HAND},noise=alls=9:allf=t,setsar=1[v]`,
  },
  {
    name: 'dark',
    needs: ['forest.jpg'],
    input: photo('forest.jpg'),
    graph: `[0:v]${HAND},lutyuv=y='16+(val-16)*0.35':u='128+(val-128)*0.5':v='128+(val-128)*0.5',noise=c0s=16:c1s=10:c2s=10:allf=t,hqdn3d=3:2:4:3,setsar=1[v]`,
  },
  {
    /** An editor whose text a wheel scrolls each second, beside a list that stands still, and a pointer. */
    name: 'screen',
    needs: [],
    input: () => ['-f', 'lavfi', '-i', `color=0xf4f4f6:s=1920x1080:r=${CLIP_RATE}:d=${CLIP_SECONDS}`],
    graph: [
      `[0:v]${writing("x=460:y='40-220*(floor(t)+min(1,3*(t-floor(t))))'", 22)}`,
      `drawbox=w=420:h=1080:color=0x20242c:t=fill,${writing('x=20:y=30:fontcolor=0xc0c8d8', 18)}`,
      `drawbox=w=1920:h=28:color=0xd8dae0:t=fill[page];color=0x101010:s=14x20:r=${CLIP_RATE}[pointer];` +
        "[page][pointer]overlay=x='900+500*sin(t*1.3)':y='500+300*sin(t*0.9)':shortest=1[v]",
    ].join(','),
  },
  {
    /** Computer animation as studios make it: 132 frames of one film, then a cut. */
    name: 'animation',
    needs: ['bigbuckbunny.mp4', 'Megamind.avi'],
    input: (path) => ['-i', path('bigbuckbunny.mp4'), '-i', path('Megamind.avi')],
    graph: [
      `[0:v]${REGULAR},trim=end_frame=132,scale=1920:1080:flags=lanczos[a]`,
      `[1:v]${REGULAR},trim=start_frame=60:end_frame=${60 + FRAMES - 132},scale=1920:-2:flags=lanczos,crop=1920:1080[b]`,
      `[a][b]concat,${REGULAR}[v]`,
    ].join(';'),
  },
  {
    /** A drawing with flat colors, and a part of it that moves in front of the rest. */
    name: 'cartoon',
    needs: ['drawing.jpg'],
    input: photo('drawing.jpg'),
    graph: [
      '[0:v]scale=2560:1440:flags=lanczos,split[a][b]',
      "[a]crop=1920:1080:x='200+1.5*n':y=180[back]",
      "[b]crop=420:640:640:340[front];[back][front]overlay=x='1500-7*n':y='300+60*sin(n/12)',setsar=1[v]",
    ].join(';'),
  },
]
