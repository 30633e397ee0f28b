import type { HighlightRenderSpec } from '../../crds/highlight-render.ts'
import type { HighlightManifest } from '../../lib/contract/highlight-manifest.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Accelerator } from '../ffmpeg/accelerator.ts'
import type { Preset } from '../hls/encode-pass.ts'
import type { Publisher } from '../hls/publisher.ts'
import type { InputProgress } from '../runtime/progress.ts'
import type { PieceCache } from './piece-cache.ts'
import type { Sources } from './sources.ts'

/** The part of a HighlightRender's spec that the job needs. */
export type RenderSpec = Pick<
  HighlightRenderSpec,
  | 'id'
  | 'title'
  | 'showTitle'
  | 'items'
  | 'outputPrefix'
  | 'transition'
  | 'orientation'
  | 'fill'
  | 'kenBurns'
  | 'skipBroken'
  | 'music'
  | 'renditions'
  | 'segmentSeconds'
  | 'accelerator'
>

export interface JobTools {
  store: ObjectStore
  /** An empty folder. The caller removes it. */
  scratch: string
  /** Bytes of sources that may lie in it at once, besides those in use. */
  sourceBytes: number
  /** Bytes of stored pieces per source. */
  cacheBytes: number
  accelerator: Accelerator
  cores: number
  preset: Preset
  signal: AbortSignal
  log: Log
  progress: InputProgress
}

/** What all steps of one highlight share. */
export interface Render extends JobTools {
  spec: RenderSpec
  sources: Sources
  cache: PieceCache
  publisher: Publisher
  /** Where the segments and playlists are made. */
  folder: string
  skipped: HighlightManifest['skipped']
  /** Pieces of earlier highlights that were used again. */
  reused: number
}
