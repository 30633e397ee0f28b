export interface ParallelismLimits {
  /** Most pods of one video at the same time. */
  maxParallelism: number
  /** Slots of an organization, of which each pod takes one. */
  maxPerOrganization: number
}

/** About ten minutes of 1080p as phones record it. */
export const BYTES_PER_POD = 2 ** 30

/** The most pods that any video gets. */
export const mostPods = ({ maxParallelism, maxPerOrganization }: ParallelismLimits): number =>
  Math.min(maxParallelism, maxPerOrganization)

/**
 * How many pods convert a video at the same time: one, and one more for every whole GiB. Only the size is known before the
 * video is decoded.
 */
export const parallelismOf = (fileSizeBytes: number, limits: ParallelismLimits): number =>
  Math.min(1 + Math.floor(fileSizeBytes / BYTES_PER_POD), mostPods(limits))
