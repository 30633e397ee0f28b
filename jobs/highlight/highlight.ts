import { HighlightManifest } from '../../lib/contract/highlight-manifest.ts'
import { EXIT, type OutputResult } from '../../lib/contract/job-result.ts'
import { manifestKey } from '../../lib/contract/object-keys.ts'
import { chooseAccelerator } from '../ffmpeg/accelerator.ts'
import { failureOf } from '../runtime/failure.ts'
import { findManifest } from '../runtime/manifest.ts'
import type { ProgressTracker } from '../runtime/progress.ts'
import type { JobOutcome } from '../runtime/run-job.ts'
import { itemOf } from './item-failed.ts'
import { renderHighlight } from './render.ts'
import type { JobTools, RenderSpec } from './render-context.ts'

export type HighlightTools = Omit<JobTools, 'progress' | 'accelerator'> & { progress: ProgressTracker }

/** Renders the highlight unless an earlier attempt has committed it. Throws only when aborted. */
export async function highlight(spec: RenderSpec, tools: HighlightTools): Promise<JobOutcome> {
  const { store, signal, log } = tools
  const progress = tools.progress.input(0, spec.id)
  try {
    const earlier = await findManifest(store, spec.outputPrefix, HighlightManifest, signal)
    const manifest = earlier ?? (await make())
    progress.finished()
    log.info({ id: spec.id, ...manifest.encode }, 'rendered')
    const output: OutputResult = { id: spec.id, state: 'Succeeded', manifestKey: manifestKey(spec.outputPrefix) }
    const { accelerator, acceleratorReason } = manifest
    return { exit: EXIT.ok, result: { ok: true, accelerator, acceleratorReason, outputs: [output] } }
  } catch (error) {
    if (signal.aborted) throw error
    const { code, reason, message } = failureOf(error)
    log.error({ err: error, id: spec.id, reason }, 'not rendered')
    const item = itemOf(error)
    const output: OutputResult = { id: spec.id, state: 'Failed', reason, message, ...(item && { item }) }
    return { exit: code, result: { ok: false, reason, message, outputs: [output] } }
  }

  async function make(): Promise<HighlightManifest> {
    // Pieces are short and their filters run on the CPU: a GPU would only take over the encoder, and pieces that it made
    // could not be joined with those of the CPU that earlier highlights left.
    const { kind } = await chooseAccelerator('cpu', signal)
    const accelerator = { kind, reason: 'highlights are encoded on the CPU' }
    tools.progress.accelerator(accelerator)
    return renderHighlight({ ...tools, progress, accelerator }, spec)
  }
}
