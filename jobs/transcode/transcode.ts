import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { TranscodeInput, TranscodeJobSpec } from '../../crds/transcode-job.ts'
import { EXIT, type OutputResult } from '../../lib/contract/job-result.ts'
import { Manifest, type VideoManifest } from '../../lib/contract/manifest.ts'
import { manifestKey } from '../../lib/contract/object-keys.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { readText } from '../../lib/runtime/object-store/read-text.ts'
import { type Accelerator, chooseAccelerator } from '../ffmpeg/accelerator.ts'
import type { Preset } from '../hls/encode-pass.ts'
import { PLAYLIST_TYPE } from '../hls/publisher.ts'
import { describedMaster } from '../hls/rendition-entries.ts'
import { type Failure, failureOf } from '../runtime/failure.ts'
import { findManifest } from '../runtime/manifest.ts'
import type { ProgressTracker } from '../runtime/progress.ts'
import type { JobOutcome } from '../runtime/run-job.ts'
import { convertVideo, Superseded } from './convert.ts'

export type TranscodeSpec = Pick<
  TranscodeJobSpec,
  'inputs' | 'renditions' | 'segmentSeconds' | 'accelerator' | 'parallelism'
>

export interface TranscodeTools {
  store: ObjectStore
  scratch: string
  cores: number
  preset: Preset
  signal: AbortSignal
  log: Log
  progress: ProgressTracker
}

interface Done {
  output: OutputResult
  failure?: Failure
  /** Images have none. */
  accelerator?: Accelerator | undefined
  planReason?: string | undefined
}

/**
 * Converts the inputs one after the other. A bad input does not affect the others; inputs that an earlier attempt has
 * committed are skipped. Throws only when aborted or when no input could be started.
 */
export async function transcode(spec: TranscodeSpec, tools: TranscodeTools): Promise<JobOutcome> {
  const done: Done[] = []
  const accelerator = acceleratorChoice(spec.accelerator, tools)
  for (const [index, input] of spec.inputs.entries()) {
    done.push(await transcodeOne(spec, tools, input, index, accelerator))
  }
  return summarize(done)
}

type AcceleratorChoice = ReturnType<typeof acceleratorChoice>

/** Tests the GPU once, when the first input needs it. After a GPU failure this attempt stays on the CPU. */
function acceleratorChoice(wanted: TranscodeSpec['accelerator'], { signal, progress }: TranscodeTools) {
  let chosen: Accelerator | undefined
  return {
    async get(): Promise<Accelerator> {
      chosen ??= await chooseAccelerator(wanted, signal)
      progress.accelerator(chosen)
      return chosen
    },
    used(accelerator: Accelerator | undefined): void {
      chosen = accelerator ?? chosen
    },
  }
}

async function transcodeOne(
  spec: TranscodeSpec,
  tools: TranscodeTools,
  input: TranscodeInput,
  index: number,
  accelerator: AcceleratorChoice,
): Promise<Done> {
  const { store, signal, log } = tools
  const scratch = join(tools.scratch, String(index))
  const progress = tools.progress.input(index, input.id)
  const convert = async () => {
    await mkdir(scratch)
    // An image needs neither ffmpeg nor the test of the GPU.
    if (input.type === 'image') {
      // Loading the library of images takes a quarter of what Node needs to start this program.
      const { convertImage } = await import('./convert-image.ts')
      return convertImage({ store, scratch, signal, log, progress }, input)
    }
    // Chosen while the source is downloaded and looked at, and awaited by the encoding.
    const choosing = accelerator.get()
    const isChosen = choosing.catch(() => {})
    try {
      const manifest = await convertVideo({ ...tools, scratch, spec, progress, accelerator: choosing }, input)
      accelerator.used(acceleratorOf(manifest))
      return manifest
    } finally {
      // A choice that ended later would take the place of what the next input has learned of the GPU.
      await isChosen
    }
  }
  const otherOf = async (error: unknown) => {
    const other =
      error instanceof Superseded ? await findManifest(store, input.outputPrefix, Manifest, signal) : undefined
    if (!other) throw error
    return other
  }
  try {
    signal.throwIfAborted()
    const earlier = await findManifest(store, input.outputPrefix, Manifest, signal)
    const manifest = earlier ?? (await convert().catch(otherOf))
    if (manifest.type === 'video') await keepMaster(tools, input.outputPrefix, manifest)
    progress.finished()
    log.info({ id: input.id, seconds: manifest.encode.wallSeconds }, 'converted')
    return {
      output: { id: input.id, state: 'Succeeded', manifestKey: manifestKey(input.outputPrefix) },
      accelerator: acceleratorOf(manifest),
      planReason: manifest.type === 'video' ? manifest.planReason : undefined,
    }
  } catch (error) {
    if (signal.aborted) throw error
    const failure = failureOf(error)
    log.error({ err: error, id: input.id, reason: failure.reason }, 'not converted')
    const { reason, message } = failure
    return { output: { id: input.id, state: 'Failed', reason, message }, failure }
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

/**
 * Writes the master playlist again where it is not that of the manifest. An attempt that ran beside the one that has
 * committed may have put its first master playlist, of the smallest rendition alone, in place of the whole one: between
 * its last look for a manifest and that write, the other one may commit. Best effort.
 */
async function keepMaster({ store, signal, log }: TranscodeTools, prefix: string, { hls }: VideoManifest) {
  const key = `${prefix}${hls.master}`
  const text = describedMaster(hls.renditions)
  try {
    const stored = await readText(store, key, { maxBytes: 2 * text.length, signal })
    if (stored === text) return
    log.warn({ key }, 'the master playlist is not that of the manifest; writing it again')
    await store.put(key, text, { contentType: PLAYLIST_TYPE, size: Buffer.byteLength(text), signal })
  } catch (error) {
    log.warn({ err: error, key }, 'could not look after the master playlist')
  }
}

const acceleratorOf = (manifest: Manifest): Accelerator | undefined =>
  manifest.type === 'video' ? { kind: manifest.accelerator, reason: manifest.acceleratorReason ?? '' } : undefined

/** A retry is useful while at least one failure is not permanent; the retry skips the inputs that succeeded. */
function summarize(done: readonly Done[]): JobOutcome {
  const failures = done.flatMap((d) => d.failure ?? [])
  const outputs = done.map((d) => d.output)
  const accelerator = done.findLast((d) => d.accelerator)?.accelerator
  const planReason = done.findLast((d) => d.planReason)?.planReason
  const common = {
    outputs,
    ...(accelerator && { accelerator: accelerator.kind, acceleratorReason: accelerator.reason }),
    ...(planReason && { planReason }),
  }
  const worst = failures.find((f) => !f.permanent) ?? failures[0]
  if (!worst) return { exit: EXIT.ok, result: { ok: true, ...common } }
  const isMixed = worst.permanent && failures.some((f) => f.code !== worst.code)
  const { reason, message } = worst
  return { exit: isMixed ? EXIT.inputBad : worst.code, result: { ok: false, reason, message, ...common } }
}
