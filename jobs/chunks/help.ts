import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TranscodeInput, TranscodeJobSpec } from '../../crds/transcode-job.ts'
import { EXIT } from '../../lib/contract/job-result.ts'
import { manifestKey } from '../../lib/contract/object-keys.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { chooseAccelerator } from '../ffmpeg/accelerator.ts'
import { startOf } from '../hls/chunks/choose.ts'
import { type ChunkRun, encodeChunk, encoderOf } from '../hls/chunks/encode-chunk.ts'
import { openProtocol, probedSource, type SharedPlan } from '../hls/chunks/protocol.ts'
import { takeChunk } from '../hls/chunks/take.ts'
import type { JobOutcome } from '../runtime/run-job.ts'
import { openSparseSource, type SparseSource } from './sparse-source.ts'

export interface HelpOptions {
  store: ObjectStore
  scratch: string
  cores: number
  signal: AbortSignal
  log: Log
  spec: Pick<TranscodeJobSpec, 'inputs' | 'accelerator' | 'parallelism'>
  /** Of this pod among those that help, from 0. A pod that replaces it has the same. */
  index: number
  timing?: Partial<typeof TIMING>
}

const TIMING = {
  pollMs: 2000,
  /** How long a pod with another encoder waits for a plan that it can help with: that of an attempt that has just ended is seen for a while. */
  patienceMs: 900_000,
}
const DONE: JobOutcome = { exit: EXIT.ok, result: { ok: true } }

/**
 * Encodes chunks of a video that another pod leads, until none is left that no pod has begun. What this pod does not finish,
 * its replacement or the pod that leads makes again, so it may end at any moment.
 */
export async function help(o: HelpOptions): Promise<JobOutcome> {
  const [input] = o.spec.inputs
  if (!input || o.spec.inputs.length > 1) return DONE
  const { pollMs, patienceMs } = { ...TIMING, ...o.timing }
  let mismatchedSince: number | undefined
  const { kind } = await chooseAccelerator(o.spec.accelerator, o.signal)
  while (true) {
    const plan = await waitForPlan(o, input, pollMs)
    if (!plan) return DONE
    // Two encoders in one rendition would not fit together.
    const isMine = kind === plan.accelerator && (await isSameEncoder(plan, o.signal))
    if (isMine) {
      if ((await encodeTaken(o, input, plan)) === 'none left') return DONE
      mismatchedSince = undefined
      continue
    }
    mismatchedSince ??= performance.now()
    if (performance.now() - mismatchedSince > patienceMs) {
      o.log.info({ mine: kind, wanted: plan.accelerator }, 'cannot help')
      return DONE
    }
    await sleep(pollMs, undefined, { signal: o.signal })
  }
}

const isSameEncoder = async (plan: SharedPlan, signal: AbortSignal): Promise<boolean> =>
  (await encoderOf(plan, probedSource(plan.source), signal)) === plan.encoder

const isDone = ({ store }: HelpOptions, { outputPrefix }: TranscodeInput) =>
  store.head(manifestKey(outputPrefix)).then((found) => found !== undefined)

/** Undefined when the video is converted, or no other pod can help. */
async function waitForPlan(o: HelpOptions, input: TranscodeInput, pollMs: number): Promise<SharedPlan | undefined> {
  const { readPlan } = openProtocol(o.store, input.outputPrefix, o.signal)
  while (!(await isDone(o, input))) {
    const plan = await readPlan()
    if (plan === 'alone') return undefined
    // The grant of this pod permits nothing else.
    if (plan?.sourceKey === input.sourceKey) return plan
    await sleep(pollMs, undefined, { signal: o.signal })
  }
  return undefined
}

async function encodeTaken(
  o: HelpOptions,
  input: TranscodeInput,
  plan: SharedPlan,
): Promise<'none left' | 'replanned'> {
  const { store, signal, log, index } = o
  const prefix = input.outputPrefix
  const protocol = openProtocol(store, prefix, signal)
  const sparse = await openSparseSource({
    ...{ store, signal, key: plan.sourceKey, bytes: plan.sourceBytes },
    path: join(o.scratch, 'source'),
  })
  const me = `helper-${index}`
  const start = startOf(index + 1, o.spec.parallelism, plan.chunks.length)
  const taker = { protocol, plan, me, start, isOverdue: () => false, signal }
  /** An attempt that encodes in another way has another plan. While a new one is made there is none. */
  const isWanted = async () => {
    if (await isDone(o, input)) return false
    const now = await protocol.readPlan()
    return now === undefined || (now !== 'alone' && now.id === plan.id)
  }
  while (await isWanted()) {
    const { chunk } = await takeChunk(taker)
    if (chunk === undefined) return 'none left'
    log.info({ chunk }, 'helping')
    await encodeFrom(sparse, log, {
      ...{ store, protocol, prefix, plan, chunk, by: me, signal, cores: o.cores },
      ...{ scratch: o.scratch, source: probedSource(plan.source), sourcePath: sparse.path },
      isWanted,
    })
  }
  return 'replanned'
}

/** From the bytes that its range should need; where these do not give clean frames, from the whole file. */
async function encodeFrom(sparse: SparseSource, log: Log, run: ChunkRun): Promise<void> {
  const { plan, chunk } = run
  const range = plan.chunks[chunk]?.bytes
  await sparse.fetch([...plan.header, ...(range ? [range] : [])])
  if (sparse.isWhole()) return encodeChunk(run)
  try {
    await encodeChunk({ ...run, refuseDamage: true })
  } catch (error) {
    run.signal.throwIfAborted()
    log.warn({ err: error, chunk }, 'a part of the source was not enough; reading all of it')
    await sparse.fetch([[0, plan.sourceBytes]])
    await encodeChunk(run)
  }
}
