import { type FileHandle, open, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { HIGHLIGHT_FPS } from '../../lib/contract/highlight-length.ts'
import { formatMediaPlaylist, type Segment } from '../hls/media-playlist.ts'
import type { Layout } from '../hls/timeline.ts'
import { type AccessUnit, readAccessUnits } from './access-units.ts'
import { KEYFRAME_FRAMES } from './plan.ts'
import { openTsMuxer } from './ts-muxer.ts'

/**
 * Whether the file holds all frames of a piece exactly once, with a keyframe each second and no others: what joining
 * requires. Says what is wrong, or undefined.
 */
export async function faultOf(path: string, frames: number): Promise<string | undefined> {
  const seen = new Uint8Array(frames)
  let keyframes = 0
  try {
    for await (const { frame, isKeyframe } of readAccessUnits(path)) {
      if (frame >= frames || seen[frame]) return `frame ${frame} of ${frames} is too many`
      seen[frame] = 1
      if (isKeyframe && frame % KEYFRAME_FRAMES !== 0) return `a keyframe at frame ${frame}`
      if (isKeyframe) keyframes += 1
    }
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  const missing = seen.indexOf(0)
  if (missing !== -1) return `frame ${missing} of ${frames} is missing`
  const due = Math.ceil(frames / KEYFRAME_FRAMES)
  return keyframes === due ? undefined : `${keyframes} keyframes where ${due} were due`
}

export interface HighlightWriter {
  /** Appends the next piece of the highlight. */
  append(path: string): Promise<void>
  /** Ends the last segment and the playlist. */
  end(): Promise<void>
}

const BATCH_BYTES = 512 * 1024

/**
 * Joins pieces to one rendition by copying their pictures: `<name>_00000.ts` and so on, and `<name>.m3u8`, which lists
 * a segment only once it is complete.
 */
export function openHighlightWriter(
  folder: string,
  name: string,
  layout: Layout,
  segmentSeconds: number,
): HighlightWriter {
  const muxer = openTsMuxer()
  const segments: Segment[] = []
  let order = 0
  let start = 0
  let file: FileHandle | undefined
  const batch = Buffer.allocUnsafe(BATCH_BYTES)
  let batched = 0
  const uriOf = (k: number) => `${name}_${String(k).padStart(5, '0')}.ts`

  async function write(bytes: Buffer): Promise<void> {
    if (batched + bytes.length > batch.length) await flush()
    if (bytes.length > batch.length) return file?.writeFile(bytes)
    batched += bytes.copy(batch, batched)
  }

  async function flush(): Promise<void> {
    if (batched > 0) await file?.writeFile(batch.subarray(0, batched))
    batched = 0
  }

  async function endSegment(): Promise<void> {
    await flush()
    await file?.close()
    file = undefined
    const k = segments.length
    const end = layout.starts[k + 1] ?? layout.frames
    segments.push({ uri: uriOf(k), seconds: (end - (layout.starts[k] ?? 0)) / HIGHLIGHT_FPS })
  }

  /** By a rename, because the publisher may read it at any time. */
  async function writePlaylist(ended: boolean): Promise<void> {
    const path = join(folder, `${name}.m3u8`)
    await writeFile(`${path}.tmp`, formatMediaPlaylist({ segments, ended }, segmentSeconds))
    await rename(`${path}.tmp`, path)
  }

  async function copy(unit: AccessUnit): Promise<void> {
    const frame = start + unit.frame
    if (file && unit.isKeyframe && frame === layout.starts[segments.length + 1]) await endSegment()
    if (!file) {
      file = await open(join(folder, uriOf(segments.length)), 'w')
      await write(muxer.tables())
    }
    await write(muxer.picture({ ...unit, frame, order }))
    order += 1
  }

  return {
    async append(path) {
      for await (const unit of readAccessUnits(path)) await copy(unit)
      start = order
      await writePlaylist(false)
    },
    async end() {
      if (file) await endSegment()
      await writePlaylist(true)
    },
  }
}
