import { readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'
import type { LibheifAnswer } from './libheif.ts'

interface HeifImage {
  is_primary(): boolean
  get_width(): number
  get_height(): number
  display(target: Pixels, done: (result: Pixels | null) => void): void
}
interface Pixels {
  data: Uint8ClampedArray
  width: number
  height: number
}

/** A CommonJS package without types. */
const require = createRequire(import.meta.url)
const libheif = require('libheif-js/wasm-bundle.js') as {
  HeifDecoder: new () => { decode(bytes: Buffer): HeifImage[] }
}
const { from, to } = workerData as { from: string; to: string }
const answer = (message: LibheifAnswer) => parentPort?.postMessage(message)
try {
  await writeFile(to, await decode(await readFile(from)))
  answer({ ok: true })
} catch (error) {
  answer({ ok: false, message: String(error) })
}

/** Returns the primary image as a binary PPM. */
async function decode(bytes: Buffer): Promise<Buffer> {
  const images = new libheif.HeifDecoder().decode(bytes)
  const image = images.find((i) => i.is_primary()) ?? images[0]
  if (!image) throw new Error('There is no image in the file')
  const [width, height] = [image.get_width(), image.get_height()]
  const target = { data: new Uint8ClampedArray(width * height * 4), width, height }
  const shown = await new Promise<Pixels | null>((resolve) => image.display(target, resolve))
  if (!shown) throw new Error('The image cannot be decoded')
  const header = Buffer.from(`P6\n${width} ${height}\n255\n`)
  const ppm = Buffer.alloc(header.length + width * height * 3)
  header.copy(ppm)
  for (let i = 0, at = header.length; i < shown.data.length; i += 4) {
    ppm[at++] = shown.data[i] ?? 0
    ppm[at++] = shown.data[i + 1] ?? 0
    ppm[at++] = shown.data[i + 2] ?? 0
  }
  return ppm
}
