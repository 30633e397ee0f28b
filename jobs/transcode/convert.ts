import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { TranscodeInput, TranscodeJobSpec } from '../../crds/transcode-job.ts'
import { EXIT } from '../../lib/contract/job-result.ts'
import { Manifest, type VideoManifest } from '../../lib/contract/manifest.ts'
import { failpoint } from '../../lib/runtime/failpoint.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { Accelerator } from '../ffmpeg/accelerator.ts'
import { type ProbedPacket, type ProbedSource, probeWithPackets } from '../ffmpeg/probe.ts'
import { LIMITS, presentationSeconds } from '../ffmpeg/source.ts'
import { leadAnew } from '../hls/chunks/lead.ts'
import { openProtocol } from '../hls/chunks/protocol.ts'
import type { Sharing } from '../hls/chunks/sharing.ts'
import type { CopiedTop } from '../hls/copied-top.ts'
import type { Preset } from '../hls/encode-pass.ts'
import { withHevc } from '../hls/hevc-copy.ts'
import { ladderOf, type Rendition } from '../hls/ladder.ts'
import { runLadder } from '../hls/ladder-run.ts'
import type { EncodedLadder, LadderRun } from '../hls/one-pass.ts'
import { openPublisher, PLAYLIST_TYPE, type Publisher } from '../hls/publisher.ts'
import { manifestEntry, masterEntry, masterPlaylistText } from '../hls/rendition-entries.ts'
import { scanTop } from '../hls/scan-top.ts'
import { download } from '../runtime/download.ts'
import { PermanentError, TransientError } from '../runtime/failure.ts'
import { findManifest, writeManifest } from '../runtime/manifest.ts'
import type { InputProgress } from '../runtime/progress.ts'
import { addHevc } from './add-hevc.ts'
import { describeSource } from './describe-source.ts'

export interface ConvertTools {
  store: ObjectStore
  /** An empty folder for this input. The caller removes it. */
  scratch: string
  spec: Pick<TranscodeJobSpec, 'inputs' | 'renditions' | 'segmentSeconds' | 'accelerator' | 'parallelism'>
  accelerator: Promise<Accelerator>
  cores: number
  preset: Preset
  signal: AbortSignal
  log: Log
  progress: InputProgress
}

/**
 * Turns one uploaded video into HLS and commits it with manifest.json, written last. File names are fixed, so an
 * attempt after a crash overwrites the files of the previous one. A bad input leaves no files behind.
 */
export async function convertVideo(tools: ConvertTools, input: TranscodeInput): Promise<VideoManifest> {
  const { store, scratch, signal, progress } = tools
  const sharing = sharingOf(tools, input)
  const isNotConverted = () => refuseConverted(tools, input.outputPrefix)
  if (sharing) await leadAnew(sharing, signal)
  const sourcePath = join(scratch, 'source')
  progress.at('Downloading', 0)
  await download(store, input.sourceKey, sourcePath, { maxBytes: LIMITS.bytes, signal })
  progress.at('Probing', 0)
  const probed = await probeWithPackets(sourcePath, signal)
  const { source } = probed
  const folder = join(scratch, 'hls')
  const plan = await planLadder(tools, sourcePath, probed)
  const { targetSeconds } = plan
  const publisher = openPublisher({ store, prefix: input.outputPrefix, folder, targetSeconds, signal })
  const startedAt = performance.now()
  try {
    const { ladder, accelerator } = await encode(tools, plan, {
      source,
      sourcePath,
      folder,
      publisher,
      sharing,
      isNotConverted,
    })
    const wallSeconds = (performance.now() - startedAt) / 1000
    progress.at('Publishing', 0)
    const prefix = input.outputPrefix
    // Loads the library of images, which a video needs only here.
    const { publishPoster } = await import('../hls/poster.ts')
    const images = await publishPoster({ ...tools, origin: 'upload', prefix, source, sourcePath, folder: scratch })
    await isNotConverted()
    // Everything that players need is there, before what they can do without is begun.
    const masters = await publishMaster(publisher, ladder, targetSeconds)
    const { segmentSeconds } = tools.spec
    const own = { segmentSeconds, ...probed, sourcePath, folder, prefix, publisher, ladder, wallSeconds }
    const hevc = await addHevc({ ...tools, ...own })
    await isNotConverted()
    const manifest = await commit(tools, input, source, ladder, {
      publisher,
      accelerator,
      wallSeconds,
      images,
      hevc,
      masters,
    })
    if (sharing) await clearShared(tools, sharing, ladder)
    return manifest
  } catch (error) {
    if (error instanceof PermanentError) await withdraw(tools, input.outputPrefix, publisher, sharing)
    throw error
  }
}

/** Another attempt has committed, although this one was begun because it seemed dead. */
export class Superseded extends TransientError {
  constructor() {
    super(EXIT.transient, 'Superseded', 'Another attempt has converted it')
  }
}

async function refuseConverted({ store, signal }: ConvertTools, prefix: string): Promise<void> {
  if (await findManifest(store, prefix, Manifest, signal)) throw new Superseded()
}

/** Several inputs are converted by one pod, one after another. */
function sharingOf({ spec, store }: ConvertTools, input: TranscodeInput): Sharing | undefined {
  const pods = spec.inputs.length === 1 ? spec.parallelism : 1
  return pods > 1 ? { pods, store, sourceKey: input.sourceKey, prefix: input.outputPrefix } : undefined
}

/** Best effort: what is left is removed with the media item. */
async function clearShared({ log, signal }: ConvertTools, { store, prefix }: Sharing, made?: EncodedLadder) {
  const kept = made?.videos.flatMap(({ segments }) => segments.map(({ uri }) => uri)) ?? []
  await openProtocol(store, prefix, signal)
    .clear(new Set(kept))
    .catch((error: unknown) => log.warn({ err: error, prefix }, 'could not remove what the pods told each other'))
}

interface LadderPlan {
  ladder: readonly Rendition[]
  /** Or why the largest rendition is encoded. */
  copied: CopiedTop | string
  targetSeconds: number
}

async function planLadder(
  { spec, signal }: ConvertTools,
  sourcePath: string,
  { source, packets }: { source: ProbedSource; packets: readonly ProbedPacket[] | undefined },
): Promise<LadderPlan> {
  const ladder = ladderOf(source, spec.renditions)
  const { segmentSeconds } = spec
  const copied = await scanTop(sourcePath, { source, ladder, segmentSeconds, packets, signal })
  return { ladder, copied, targetSeconds: typeof copied === 'string' ? segmentSeconds : copied.targetSeconds }
}

/** With `auto`, the CPU encodes again when a GPU that passed its test fails during encoding. */
async function encode(
  tools: ConvertTools,
  { ladder, copied }: LadderPlan,
  given: Pick<LadderRun, 'source' | 'sourcePath' | 'folder' | 'publisher' | 'sharing' | 'isNotConverted'>,
): Promise<{ ladder: EncodedLadder; accelerator: Accelerator }> {
  const { spec, progress } = tools
  const { source, folder, publisher } = given
  const seconds = presentationSeconds(source)
  const chosen = await tools.accelerator
  const run = async (kind: Accelerator['kind']) => {
    await rm(folder, { recursive: true, force: true })
    await mkdir(folder)
    const options: LadderRun = {
      ...tools,
      ...given,
      ladder,
      copied,
      segmentSeconds: spec.segmentSeconds,
      accelerator: kind,
      onProgress: (fraction) => progress.at('Encoding', fraction, seconds),
      onPlanned: progress.planned,
      onPlayable: progress.playable,
    }
    return runLadder(options)
  }
  try {
    return { ladder: await run(chosen.kind), accelerator: chosen }
  } catch (error) {
    const isGpuFailure = error instanceof TransientError && error.code === EXIT.gpuBusy
    if (!isGpuFailure || spec.accelerator !== 'auto') throw error
    tools.log.warn({ err: error }, 'the GPU failed; encoding again on the CPU')
    publisher.again()
    const accelerator: Accelerator = { kind: 'cpu', reason: error.message.slice(0, 256) }
    progress.accelerator(accelerator)
    return { ladder: await run('cpu'), accelerator }
  }
}

type Masters = { video: EncodedLadder['videos'][number]; master: ReturnType<typeof masterEntry> }[]

async function publishMaster(publisher: Publisher, ladder: EncodedLadder, targetSeconds: number): Promise<Masters> {
  const { videos, audio } = ladder
  const masters = videos.map((video) => ({ video, master: masterEntry(video, audio?.segments ?? null, targetSeconds) }))
  await putMaster(publisher, 'master.m3u8', masters, audio !== null)
  return masters
}

const putMaster = (publisher: Publisher, name: string, masters: Masters, hasAudio: boolean) =>
  publisher.put(
    name,
    masterPlaylistText(
      masters.map(({ master }) => master),
      hasAudio,
    ),
    PLAYLIST_TYPE,
  )

async function commit(
  { store, spec, signal }: ConvertTools,
  input: TranscodeInput,
  source: ProbedSource,
  { audio, planReason }: EncodedLadder,
  made: {
    publisher: Publisher
    accelerator: Accelerator
    wallSeconds: number
    images: VideoManifest['images']
    hevc: Awaited<ReturnType<typeof addHevc>>
    masters: Masters
  },
): Promise<VideoManifest> {
  const hasAudio = audio !== null
  const described = [...made.masters]
  const { hevc } = made
  if (hevc && 'video' in hevc) {
    const { video, targetSeconds } = hevc
    described.push({ video, master: masterEntry(video, audio?.segments ?? null, targetSeconds) })
    await putMaster(made.publisher, 'master-hevc.m3u8', described, hasAudio)
  }
  failpoint('job.uploaded')
  signal.throwIfAborted()
  const seconds = presentationSeconds(source)
  const manifest: VideoManifest = {
    version: 1,
    id: input.id,
    type: 'video',
    createdAt: new Date().toISOString(),
    accelerator: made.accelerator.kind,
    acceleratorReason: made.accelerator.reason,
    planReason: withHevc(planReason, hevc),
    source: describeSource(source),
    hls: {
      master: 'master.m3u8',
      segmentSeconds: spec.segmentSeconds,
      durationSec: seconds,
      renditions: described.map((d) => manifestEntry(d.video, d.master, hasAudio)),
    },
    ...(made.images && { images: made.images }),
    encode: { wallSeconds: made.wallSeconds, speed: seconds / Math.max(0.001, made.wallSeconds) },
  }
  await writeManifest(store, input.outputPrefix, Manifest, manifest)
  failpoint('job.manifest-written')
  return manifest
}

/** Best effort. Keeps the files when another attempt has committed meanwhile: its files have the same names. */
async function withdraw(tools: ConvertTools, prefix: string, publisher: Publisher, sharing?: Sharing): Promise<void> {
  const { store, log, signal } = tools
  try {
    if (await findManifest(store, prefix, Manifest, signal)) return
    await publisher.withdraw()
    if (sharing) await clearShared(tools, sharing)
  } catch (error) {
    log.warn({ err: error, prefix }, 'could not remove the published files of a bad input')
  }
}
