import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { HighlightItem } from '../../crds/highlight-render.ts'
import { framesOf } from '../../lib/contract/highlight-length.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { type ProbedSource, probe } from '../ffmpeg/probe.ts'
import { LIMITS } from '../ffmpeg/source.ts'
import { IMAGE_LIMITS } from '../images/read-header.ts'
import { blaming } from './item-failed.ts'
import { type ItemSound, renderItemSound, type SoundSource } from './sound/item-sound.ts'
import type { SourceFile, Sources } from './sources.ts'
import { decodeStill, type Still } from './still.ts'

/** An item that can be used, and what its source is. */
export interface Subject {
  item: HighlightItem
  /** Changes whenever the source does. */
  etag: string
  /** In the highlight, overlaps included. */
  frames: number
  width: number
  height: number
  picture: { kind: 'still'; still: Still } | { kind: 'video'; source: ProbedSource }
  sound: ItemSound
}

export interface SubjectTools {
  sources: Sources
  scratch: string
  signal: AbortSignal
  log: Log
}

/** Downloads and examines an item. Throws ItemFailed when its source is missing or broken. */
export const examine = (tools: SubjectTools, item: HighlightItem): Promise<Subject> =>
  blaming(item, () =>
    withSource(tools.sources, item, (file) =>
      item.type === 'image' ? photo(tools, item, file) : video(tools, item, file),
    ),
  )

/** Does something with the source of an item, which may have to be downloaded again. */
export const withSource = <T>(sources: Sources, item: HighlightItem, work: (file: SourceFile) => Promise<T>) =>
  sources.use(item.sourceKey, maxBytesOf(item), work)

const maxBytesOf = ({ type }: HighlightItem) => (type === 'image' ? IMAGE_LIMITS.bytes : LIMITS.bytes)

async function photo(tools: SubjectTools, item: HighlightItem, file: SourceFile): Promise<Subject> {
  const still = await decodeStill(file.folder, join(tools.scratch, `still-${digestOf(item.id)}.v`), tools)
  const { width, height } = still
  const frames = framesOf(item.seconds)
  const sound = await soundOf(tools, item, { path: null, stream: null, startSec: 0, frames })
  return { item, etag: file.etag, frames, width, height, picture: { kind: 'still', still }, sound }
}

async function video(tools: SubjectTools, item: HighlightItem, { path, etag }: SourceFile): Promise<Subject> {
  const source = await probe(path, tools.signal)
  const { width, height } = source
  const frames = framesOf(Math.min(item.seconds, source.videoSeconds))
  const sound = await soundOf(tools, item, { path, stream: source.audio?.index ?? null, startSec: 0, frames })
  return { item, etag, frames, width, height, picture: { kind: 'video', source }, sound }
}

/** Rendered while the source is on disk. */
const soundOf = (tools: SubjectTools, item: HighlightItem, source: SoundSource) =>
  renderItemSound(source, { ...tools, out: join(tools.scratch, `sound-${digestOf(item.id)}.s16`) })

export const digestOf = (value: unknown): string =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 40)
