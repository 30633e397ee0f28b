import { EXIT } from '../../lib/contract/job-result.ts'
import { badInput, TransientError } from '../runtime/failure.ts'
import { runTool, ToolCrashed } from '../runtime/tool-process.ts'
import { corrupt, tooLarge } from './header.ts'
import { IMAGE_LIMITS } from './read-header.ts'

export interface VipsRun {
  args: readonly string[]
  /** Holds all files that the arguments name. */
  folder: string
  /** Reads an upload: only the decoders that libvips trusts with hostile files may run. */
  isUpload: boolean
  signal: AbortSignal
}

/** The programs and libraries themselves, beside what `memoryBytes` of a header counts. */
const OVERHEAD_BYTES = 128 * 1024 ** 2
const LIMITS = {
  memoryBytes: IMAGE_LIMITS.memoryBytes + OVERHEAD_BYTES,
  cpuSeconds: 60,
  // 220 megapixels with transparency, and room for a header.
  fileBytes: 1024 ** 3,
}
/** Far more than the processor time allowed, because nodes are busy. */
const LIMIT_MS = 300_000
const TAIL_LINES = 20

/** The installed vips lacks a decoder that the image needs; another decoder may have it. */
export class DecoderMissing extends Error {
  override readonly name = 'DecoderMissing'
}

/** The color profile of the image is broken inside. Its pixels may be whole. */
export class ProfileUnusable extends Error {
  override readonly name = 'ProfileUnusable'
}

/** Runs one vips operation. Throws a PermanentError when the image is at fault, DecoderMissing, and ProfileUnusable. */
export async function runVips({ args, folder, isUpload, signal }: VipsRun): Promise<void> {
  const tail: string[] = []
  const onLine = (line: string) => {
    if (tail.push(line.slice(0, 300)) > TAIL_LINES) tail.shift()
  }
  const variables = {
    ...(isUpload && { VIPS_BLOCK_UNTRUSTED: '1' }),
    // A batch runs beside other pods, and images are converted one after the other: threads only cost.
    VIPS_CONCURRENCY: '1',
    MALLOC_ARENA_MAX: '1',
    TMPDIR: folder,
  }
  const code = await runTool({
    tool: 'vips',
    args,
    folder,
    variables,
    signal,
    limitMs: LIMIT_MS,
    limits: LIMITS,
    onStdoutLine: onLine,
    onStderrLine: onLine,
  }).catch((error: unknown) => {
    throw error instanceof ToolCrashed ? explainCrash(error, isUpload) : error
  })
  if (code !== 0) throw explain(tail.join('\n'), isUpload)
  if (isUpload && DAMAGED.test(tail.join('\n'))) throw corrupt('The image is damaged')
}

/** GLib aborts where memory runs out; the kernel ends what needs too much time or disk. */
function explainCrash(error: ToolCrashed, isUpload: boolean): Error {
  if (['SIGABRT', 'SIGTRAP', 'SIGXCPU', 'SIGXFSZ'].includes(error.by)) {
    return badInput('LimitExceeded', 'The image needs too much time or memory to read', { cause: error })
  }
  return isUpload ? badInput('CorruptInput', 'The image cannot be decoded', { cause: error }) : error
}

/**
 * The decoder of JPEG paints what is missing grey and ends well. Such a picture would pass for the whole one, so it is
 * refused, and people get the original. Other warnings, such as bytes between segments, lose nothing.
 */
const DAMAGED = /premature end|bad Huffman code|bad arithmetic code|instead of RST/i
const NO_MEMORY = /out of memory|unable to allocate|cannot allocate|memory allocation|insufficient memory|bad_alloc/i
const NO_SPACE = /No space left on device|Disk quota exceeded/
const NO_DECODER =
  /not a known file format|Unsupported codec|has not been built in|operation is blocked|No decoding plugin/i
const NO_PROFILE = /Couldn't link the profiles|compatible input profile/

function explain(tail: string, isUpload: boolean): Error {
  const cause = new Error(tail.slice(-1000))
  if (NO_SPACE.test(tail)) {
    return new TransientError(EXIT.noSpace, 'NoSpace', 'There is no space left for the converted files', { cause })
  }
  if (NO_MEMORY.test(tail)) return tooLarge('The image needs too much memory to read')
  if (NO_PROFILE.test(tail)) return new ProfileUnusable(tail.slice(-300))
  if (!isUpload)
    return new TransientError(EXIT.transient, 'EncodeFailed', `vips failed: ${tail.slice(-300)}`, { cause })
  if (NO_DECODER.test(tail)) return new DecoderMissing(tail.slice(-300))
  return corrupt('The image cannot be decoded')
}
