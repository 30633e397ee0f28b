import { HighlightRenderSpec } from '../../crds/highlight-render.ts'
import { int, json } from '../../lib/runtime/config.ts'
import { runEncodeJob } from '../hls/encode-job.ts'
import { highlight } from './highlight.ts'

const own = {
  config: {
    /** The HighlightRender's spec; the fields that say how to run may be missing. */
    JOB_SPEC: json(HighlightRenderSpec),
    /** Sources that lie on disk at once, in MiB, besides those in use. */
    SOURCES_MIB: int(0, 1_000_000).default(4096),
    /** Pieces kept for later highlights, in MiB for each source. */
    PIECES_MIB: int(0, 1_000_000).default(256),
  },
  inputs: () => 1,
}

/** What the environment asks for. Returns the exit code. */
export const runHighlightJob = (): Promise<number> =>
  runEncodeJob('highlight', own, ({ JOB_SPEC, SOURCES_MIB, PIECES_MIB }, tools) =>
    highlight(JOB_SPEC, {
      ...tools,
      sourceBytes: SOURCES_MIB * 1024 ** 2,
      cacheBytes: PIECES_MIB * 1024 ** 2,
    }),
  )
