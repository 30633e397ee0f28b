/**
 * How many threads ffmpeg gets. Its own defaults count the cores of the node, of which a pod is promised only some: on a
 * node with 64 cores a ladder of 1080p held 2.8 GiB. Here the same defaults are computed from the cores of the pod. All
 * functions are pure.
 */

/** Each thread holds pictures. With so many cores a ladder of 1080p needs 0.8 GiB, and one of 4K in HDR 1.3 GiB. */
const MAX_CORES = 8
/** What the pictures of a decoder's threads may take. */
const MAX_DECODER_BYTES = 256 * 1024 ** 2
/** Of 4:2:0 with more than 8 bits. */
const BYTES_PER_PIXEL = 3

const bounded = (cores: number) => Math.max(1, Math.min(MAX_CORES, cores))

/** The default of x264: half as many again as cores, because threads wait for the rows of the frame before. */
export const encoderThreads = (cores: number): number => Math.floor(1.5 * bounded(cores))

/** The default of ffmpeg: one more than cores, unless there is one; fewer for pictures that are very large. */
export function decoderThreads(cores: number, { width, height }: { width: number; height: number }): number {
  const wanted = bounded(cores) === 1 ? 1 : bounded(cores) + 1
  const held = Math.floor(MAX_DECODER_BYTES / (width * height * BYTES_PER_PIXEL))
  return Math.max(1, Math.min(wanted, held))
}

/** Slices of one picture; they hold none of their own. */
export const filterThreads = bounded
