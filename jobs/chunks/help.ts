import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TranscodeInput, TranscodeJobSpec } from '../../crds/transcode-job.ts'
import { EXIT } from '../../lib/contract/job-result.ts'
import { manifestKey } from '../../lib/contract/object-keys.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { chooseAccelerator } from '../ffmpeg/accelerator.ts'
import { type ChunkRun, encodeChunk } from '../hls/chunks/encode-chunk.ts'
import { openProtocol, probedSource, type SharedPlan } from '../hls/chunks/protocol.ts'
import { takeChunk } from '../hls/chunks/take.ts'
import type { Preset } from '../hls/encode-pass.ts'
import { TransientError } from '../runtime/failure.ts'
import type { JobOutcome } from '../runtime/run-job.ts'
import { openSparseSource, type SparseSource } from './sparse-source.ts'

export interface HelpTools {
  store: ObjectStore
  scratch: string
  cores: number
  preset: Preset
  signal: AbortSignal
  log: Log
}

export interface HelpOptions extends HelpTools {
  spec: Pick<TranscodeJobSpec, 'inputs' | 'accelerator' | 'parallelism'>
  /** Of this pod among those that help, from 0. A pod that replaces it has the same. */
  index: number
  timing?: Partial<typeof TIMING>
}

const TIMING = { pollMs: 2000 }
const DONE: JobOutcome = { exit: EXIT.ok, result: { ok: true } }

/**
 * Encodes chunks of a video that another pod leads, until none is left that no pod has begun. What this pod does not finish,
 * its replacement or the pod that leads makes again, so it may end at any moment.
 */
export async function help(o: HelpOptions): Promise<JobOutcome> {
  const [input] = o.spec.inputs
  if (!input || o.spec.inputs.length > 1) return DONE
  const protocol = openProtocol(o.store, input.outputPrefix, o.signal)
  const plan = await waitForPlan(o, input, protocol.readPlan)
  if (!plan) return DONE
  const { kind } = await chooseAccelerator(o.spec.accelerator, o.signal)
  if (kind !== plan.accelerator) {
    // Two encoders in one rendition would not fit together.
    o.log.info({ mine: kind, wanted: plan.accelerator }, 'cannot help')
    return DONE
  }
  await encodeTaken(o, input, plan)
  return DONE
}

const isDone = ({ store }: HelpOptions, { outputPrefix }: TranscodeInput) =>
  store.head(manifestKey(outputPrefix)).then((found) => found !== undefined)

/** Undefined when the video is already converted. */
async function waitForPlan(
  o: HelpOptions,
  input: TranscodeInput,
  read: () => Promise<SharedPlan | undefined>,
): Promise<SharedPlan | undefined> {
  const { pollMs } = { ...TIMING, ...o.timing }
  while (!(await isDone(o, input))) {
    const plan = await read()
    // The grant of this pod permits nothing else.
    if (plan?.sourceKey === input.sourceKey) return plan
    await sleep(pollMs, undefined, { signal: o.signal })
  }
  return undefined
}

async function encodeTaken(o: HelpOptions, input: TranscodeInput, plan: SharedPlan): Promise<void> {
  const { store, signal, log, index } = o
  const prefix = input.outputPrefix
  const protocol = openProtocol(store, prefix, signal)
  const sparse = await openSparseSource({
    ...{ store, signal, key: plan.sourceKey, bytes: plan.sourceBytes },
    path: join(o.scratch, 'source'),
  })
  const me = `helper-${index}`
  const start = Math.floor(((index + 1) * plan.chunks.length) / Math.max(2, o.spec.parallelism))
  const taker = { protocol, plan, me, start: start % plan.chunks.length, isOverdue: () => false, signal }
  while (true) {
    const { chunk } = await takeChunk(taker)
    if (chunk === undefined) return
    log.info({ chunk }, 'helping')
    const run: ChunkRun = {
      ...{ store, protocol, prefix, plan, chunk, by: me, signal, cores: o.cores, preset: o.preset },
      ...{ scratch: o.scratch, source: probedSource(plan.source), sourcePath: sparse.path },
      isWanted: async () => !(await isDone(o, input)),
    }
    await encodeFrom(sparse, run, log)
  }
}

/** From the bytes that its range should need; where these do not give the frames that are due, from the whole file. */
async function encodeFrom(sparse: SparseSource, run: ChunkRun, log: Log): Promise<void> {
  const { plan, chunk } = run
  const range = plan.chunks[chunk]?.bytes
  await sparse.fetch([...plan.header, ...(range ? [range] : [])])
  try {
    await encodeChunk({ ...run, refuseDamage: true })
  } catch (error) {
    run.signal.throwIfAborted()
    const isOfRead = error instanceof TransientError && error.code === EXIT.verificationFailed
    if (!isOfRead && !(error instanceof Error && error.name === 'PermanentError')) throw error
    log.warn({ err: error, chunk }, 'a part of the source was not enough; reading all of it')
    await sparse.fetch([[0, plan.sourceBytes]])
    await encodeChunk(run)
  }
}
