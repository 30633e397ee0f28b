import { join } from 'node:path'
import sharp from 'sharp'
import { encode, sampleFile } from './sample-file.ts'

interface Scene {
  name: string
  /** On the camera's clock, as EXIF writes it. */
  takenAt: string
  size: [width: number, height: number]
  /** From the top to the horizon. */
  sky: [string, string, string]
  hills: string[]
  sun: { x: number; y: number; r: number; colour: string }
  stars?: boolean
}

/** Photos of three months, upright and wide, so that the library has something to arrange. */
const SCENES: Scene[] = [
  {
    name: 'evening-at-the-lake.jpg',
    takenAt: '2026:08:14 20:41:00',
    size: [2400, 1600],
    sky: ['#2b2a5e', '#d4626a', '#ffc27a'],
    hills: ['#7a4a72', '#573659', '#39263f', '#21182a'],
    sun: { x: 0.62, y: 0.53, r: 0.06, colour: '#ffe9b8' },
  },
  {
    name: 'first-light.jpg',
    takenAt: '2026:08:15 05:58:00',
    size: [1600, 2400],
    sky: ['#8fb7d9', '#d9dfe0', '#ffe3c2'],
    hills: ['#9db4c2', '#71909f', '#476a75', '#27474e'],
    sun: { x: 0.3, y: 0.5, r: 0.07, colour: '#fffaf0' },
  },
  {
    name: 'the-pass.png',
    takenAt: '2026:06:02 11:20:00',
    size: [1800, 1350],
    sky: ['#2f7fc4', '#84bde6', '#dff0fa'],
    hills: ['#9fb4c9', '#7295a3', '#4c7a6d', '#2f5a44'],
    sun: { x: 0.8, y: 0.18, r: 0.045, colour: '#fffdf2' },
  },
  {
    name: 'red-valley.jpg',
    takenAt: '2026:06:21 18:05:00',
    size: [2400, 1350],
    sky: ['#e89a5b', '#f2c48d', '#fbe8c9'],
    hills: ['#d98a5c', '#b96242', '#8d4331', '#5b2b26'],
    sun: { x: 0.22, y: 0.4, r: 0.05, colour: '#fff6dd' },
  },
  {
    name: 'north-of-the-village.jpg',
    takenAt: '2025:12:28 22:15:00',
    size: [2000, 2000],
    sky: ['#050a1f', '#12305a', '#2c6e73'],
    hills: ['#1d3b4f', '#142a3b', '#0c1b28', '#060e16'],
    sun: { x: 0.72, y: 0.24, r: 0.035, colour: '#f3f0dc' },
    stars: true,
  },
]
const LIVE: Scene = {
  name: 'IMG_2107',
  takenAt: '2026:08:14 21:02:00',
  size: [1920, 1440],
  sky: ['#1c1b4b', '#8a4a86', '#f58f6c'],
  hills: ['#6a3f73', '#4b2f5c', '#302044', '#1b142c'],
  sun: { x: 0.46, y: 0.55, r: 0.055, colour: '#ffdf9e' },
}

export interface SamplePhotos {
  photos: string[]
  /** One of them is a HEIC where this machine can encode one. */
  live: { image: string; video: string }
}

/** Makes the photos and the Live Photo of the demo in `folder`, those that are missing, until `signal` is aborted. */
export async function samplePhotos(folder: string, signal: AbortSignal): Promise<SamplePhotos> {
  const photos: string[] = []
  for (const [i, scene] of SCENES.entries()) {
    signal.throwIfAborted()
    photos.push(await sampleFile(join(folder, scene.name), (draft) => write(scene, i + 1, draft)))
  }
  signal.throwIfAborted()
  return { photos, live: await livePhoto(folder, signal) }
}

const pictureOf = (scene: Scene, seed: number) =>
  sharp(Buffer.from(drawing(scene, seed))).withExif({
    IFD0: { Make: 'Keepsake', Model: 'Sample' },
    IFD2: { DateTimeOriginal: scene.takenAt, FNumber: '18/10', ExposureTime: '1/250' },
  })

const write = (scene: Scene, seed: number, path: string) =>
  path.endsWith('.png')
    ? pictureOf(scene, seed).png().toFile(path)
    : pictureOf(scene, seed).jpeg({ quality: 88 }).toFile(path)

const LIVE_SEED = 7

/** The motion, and the still as phones make it. libheif has no encoder for HEVC everywhere; then it is a JPEG. */
async function livePhoto(folder: string, signal: AbortSignal) {
  const jpeg = join(folder, `${LIVE.name}.JPG`)
  const still = await sampleFile(jpeg, (draft) => pictureOf(LIVE, LIVE_SEED).jpeg({ quality: 92 }).toFile(draft))
  const heic = sampleFile(join(folder, `${LIVE.name}.HEIC`), (draft) =>
    encode(signal, ['vips', 'heifsave', still, draft, '--Q=60']),
  )
  // Three seconds in which the camera drifts over the same view.
  const motion = sampleFile(join(folder, `${LIVE.name}.MOV`), (draft) => {
    const args = [
      ...['-nostdin', '-v', 'error', '-y', '-loop', '1', '-i', still],
      ...['-f', 'lavfi', '-i', 'anoisesrc=color=brown:amplitude=0.08', '-t', '3'],
      ...['-vf', "zoompan=z='1+0.0022*on':x='(iw-iw/zoom)*0.45':y='(ih-ih/zoom)*0.55':d=1:s=1440x1080:fps=30"],
      ...['-c:v', 'libx264', '-preset', 'veryfast', '-pix_fmt', 'yuv420p', '-c:a', 'aac'],
      ...['-metadata', 'creation_time=2026-08-14T21:02:00Z', draft],
    ]
    return encode(signal, ['ffmpeg', ...args])
  })
  // Both have ended, whatever became of the other one.
  const [image, video] = await Promise.allSettled([heic, motion])
  signal.throwIfAborted()
  if (video.status === 'rejected') throw video.reason
  return { image: image.status === 'fulfilled' ? image.value : still, video: video.value }
}

/** An evening, a morning, a night: sky, sun, and hills one behind the other. The seed says which hills. */
function drawing({ size: [w, h], sky, hills, sun, stars }: Scene, seed: number): string {
  const random = randomFrom(seed)
  const at = (share: number, of: number) => (share * of).toFixed(0)
  const ridges = hills.map((colour, i) => {
    const base = h * (0.56 + (0.36 * i) / hills.length)
    return `<path fill="${colour}" d="${ridge(w, h, base, h * (0.1 - 0.015 * i), random)}"/>`
  })
  const points = Array.from({ length: stars ? 160 : 0 }, () => {
    const [x, y, r] = [random() * w, random() * h * 0.6, 0.5 + random() * (w / 700)]
    return `<circle cx="${x.toFixed(0)}" cy="${y.toFixed(0)}" r="${r.toFixed(1)}" fill="#fff" opacity="${(0.3 + random() * 0.7).toFixed(2)}"/>`
  })
  const [x, y, r] = [at(sun.x, w), at(sun.y, h), sun.r * h]
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}">
  <defs>
    <linearGradient id="sky" x2="0" y2="1"><stop stop-color="${sky[0]}"/><stop offset=".42" stop-color="${sky[1]}"/>
      <stop offset=".62" stop-color="${sky[2]}"/></linearGradient>
    <radialGradient id="glow"><stop stop-color="${sun.colour}" stop-opacity=".75"/><stop offset="1" stop-color="${sun.colour}" stop-opacity="0"/></radialGradient>
  </defs>
  <rect width="${w}" height="${h}" fill="url(#sky)"/>${points.join('')}
  <circle cx="${x}" cy="${y}" r="${(r * 6).toFixed(0)}" fill="url(#glow)"/>
  <circle cx="${x}" cy="${y}" r="${r.toFixed(0)}" fill="${sun.colour}"/>${ridges.join('')}
</svg>`
}

/** A skyline of a few waves on top of each other. */
function ridge(w: number, h: number, base: number, height: number, random: () => number): string {
  const waves = Array.from({ length: 5 }, (_, i) => ({ n: (i + 1) * (0.7 + random()), phase: random() * 6.28 }))
  const points = Array.from({ length: 121 }, (_, i) => {
    const x = (i / 120) * w
    const sum = waves.reduce((all, { n, phase }, k) => all + Math.sin((i / 120) * 6.28 * n + phase) / (k + 1), 0)
    return `${x.toFixed(0)} ${(base - sum * height * 0.7).toFixed(0)}`
  })
  return `M0 ${h}L${points.join('L')}L${w} ${h}Z`
}

/** Numbers from 0 to 1 that are the same in every run. */
function randomFrom(seed: number): () => number {
  let state = seed * 2_654_435_761
  return () => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 374_761_393) >>> 0
    return state / 2 ** 32
  }
}
