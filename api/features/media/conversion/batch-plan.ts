import type { Uuid } from '../../../../lib/contract/ids.ts'

/** An image that waits for a batch. */
export interface WaitingImage {
  id: Uuid
  bytes: number
  waitedMs: number
  /** How many of its batches failed as a whole. */
  regrouped: number
}

/** A person who waits for few media items, and therefore for each of them. */
export interface InteractiveUploader {
  /** Interactive batches of this person that are not over. */
  running: number
  /** Oldest first. */
  waiting: readonly WaitingImage[]
}

export interface OrganizationImages {
  orgId: Uuid
  interactive: readonly InteractiveUploader[]
  /** Batches of the organization that are not over. */
  running: Readonly<Record<BatchPriority, number>>
  /** Images of everyone else, oldest first. May be truncated to `waitingNeeded`. */
  waiting: readonly WaitingImage[]
}

export type BatchPriority = 'interactive' | 'backfill'

export interface PlannedBatch {
  orgId: Uuid
  priority: BatchPriority
  ids: Uuid[]
  /** How many batches of this priority the organization has before this one. */
  turn: number
  /** Of the oldest image. */
  waitedMs: number
}

export interface BatchLimits {
  /** Batches of one organization at a time. */
  interactive: number
  backfill: number
}

/** Interactive batches of one person at a time: what this person uploads meanwhile becomes the next batch. */
const PER_UPLOADER = 2
/** Someone who waits for more media items than this is not watching each of them. */
export const INTERACTIVE_MEDIA = 10
/** Members of a batch, by the number of batches that failed with them: whatever makes them fail is soon alone. */
const MAX_MEMBERS = [64, 8, 1] as const
const MAX_BYTES = 256 * 2 ** 20
/** A larger image gets a batch of its own: it needs much of the memory and the time of a pod. */
const LARGE_BYTES = 32 * 2 ** 20
/** How long a batch that is not full waits for more images. */
const WAIT_MS = 2000

/** More waiting images than this cannot matter to the plan. */
export const waitingNeeded = ({ backfill }: BatchLimits) => backfill * MAX_MEMBERS[0]

interface Group {
  images: WaitingImage[]
  bytes: number
  isFull: boolean
}

/**
 * Returns the batches of an organization to form now, and in how many milliseconds to look again if a batch waits for
 * more images.
 */
export function batchesOf(organization: OrganizationImages, limits: BatchLimits) {
  const { orgId, running } = organization
  const place = (priority: BatchPriority) => (group: Group, i: number) => ({
    orgId,
    priority,
    ids: group.images.map(({ id }) => id),
    turn: running[priority] + i,
    waitedMs: waitedOf(group),
  })
  const interactive = organization.interactive
    .flatMap(({ running: own, waiting }) => groupsOf(waiting).slice(0, Math.max(0, PER_UPLOADER - own)))
    .sort((a, b) => waitedOf(b) - waitedOf(a))
    .slice(0, Math.max(0, limits.interactive - running.interactive))
  const backfill = groupsOf(organization.waiting).slice(0, Math.max(0, limits.backfill - running.backfill))
  const waits = backfill.filter((group) => !isDue(group)).map((group) => WAIT_MS - waitedOf(group))
  const batches: PlannedBatch[] = [
    ...interactive.map(place('interactive')),
    ...backfill.filter(isDue).map(place('backfill')),
  ]
  return { batches, againAfterMs: waits.length > 0 ? Math.min(...waits) : undefined }
}

/**
 * The order in which to create the TranscodeJobs of batches; the cluster serves them in that order. Interactive ones
 * come first. Then organizations take turns: every organization gets its n-th batch before any gets one more. Within a
 * turn, the batch with the oldest image comes first.
 */
export function inTurns<B extends PlannedBatch>(batches: readonly B[]): B[] {
  return [...batches].sort((a, b) => rankOf(a) - rankOf(b) || a.turn - b.turn || b.waitedMs - a.waitedMs)
}

const rankOf = ({ priority }: PlannedBatch) => (priority === 'interactive' ? 0 : 1)

const waitedOf = ({ images }: Group) => Math.max(...images.map(({ waitedMs }) => waitedMs))
const isDue = (group: Group) => group.isFull || waitedOf(group) >= WAIT_MS

/** Puts images into groups in the order given. Those that failed together equally often share a group. */
function groupsOf(images: readonly WaitingImage[]): Group[] {
  const groups: Group[] = []
  const open = new Map<number, Group>()
  for (const image of images) {
    const max = MAX_MEMBERS[Math.min(image.regrouped, MAX_MEMBERS.length - 1)] ?? 1
    let group = open.get(max)
    if (image.bytes > LARGE_BYTES) {
      groups.push({ images: [image], bytes: image.bytes, isFull: true })
      continue
    }
    if (group && group.bytes + image.bytes > MAX_BYTES) group.isFull = true
    if (!group || group.isFull) {
      group = { images: [], bytes: 0, isFull: false }
      groups.push(group)
      open.set(max, group)
    }
    group.images.push(image)
    group.bytes += image.bytes
    group.isFull = group.images.length >= max
  }
  return groups
}
