import { setTimeout as sleep } from 'node:timers/promises'
import type { VerifiedVideo } from '../verify.ts'
import { type ChunkPart, openProtocol, type SharedPlan } from './protocol.ts'
import { CALM, type LeadOptions, type Sharing, TIMING } from './sharing.ts'
import { joined } from './stitch.ts'

export interface Joining {
  /** What a first pass has made of the smallest rendition that was stopped. */
  begun: VerifiedVideo
  /** Is given that with what chunks have added, whenever it grows. */
  onJoined: (segments: VerifiedVideo['segments']) => Promise<void>
}

/** Until `ended`, tells of the smallest rendition what chunks that are done have added to it. */
export async function joinUntil(
  ended: AbortSignal,
  { sharing, signal }: LeadOptions,
  plan: SharedPlan,
  { begun, onJoined }: Joining,
): Promise<void> {
  const protocol = openProtocol(sharing.store, sharing.prefix, signal)
  const { pollMs } = { ...TIMING, ...sharing.timing }
  const parts = new Map<number, ChunkPart>()
  let listed = begun.segments.length
  while (!ended.aborted) {
    for (const chunk of await protocol.doneOf(plan)) {
      const isNew = plan.chunks[chunk]?.isFull && !parts.has(chunk)
      const part = isNew && (await protocol.readPart(plan.id, chunk))
      if (part) parts.set(chunk, part)
    }
    const segments = joined(plan, parts, begun)
    if (segments.length > listed && (await areThere(segments.slice(listed), sharing))) {
      await onJoined(segments)
      listed = segments.length
    }
    await sleep(CALM * pollMs, undefined, { signal: ended }).catch(() => {})
  }
}

async function areThere(segments: VerifiedVideo['segments'], { store, prefix }: Sharing): Promise<boolean> {
  for (const { uri, bytes } of segments) if ((await store.head(prefix + uri))?.size !== bytes) return false
  return true
}
