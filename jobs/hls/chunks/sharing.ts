import type { Log } from '../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import type { ProbedSource } from '../../ffmpeg/probe.ts'
import type { Preset } from '../encode-pass.ts'
import type { Rendition } from '../ladder.ts'

/** What other pods may help with, and where they find it. */
export interface Sharing {
  /** All, the one that leads included. */
  pods: number
  store: ObjectStore
  sourceKey: string
  prefix: string
  timing?: Partial<typeof TIMING>
}

export const TIMING = {
  pollMs: 1000,
  /** A chunk that another pod claims is taken over after this, or after three times what the slowest one took. */
  overdueMs: 60_000,
  /** The same while no chunk is done. */
  unknownMs: 600_000,
}

/** Of `pollMs`, beside an encoder. */
export const CALM = 5

export interface LeadOptions {
  sharing: Sharing
  source: ProbedSource
  sourcePath: string
  /** All renditions, smallest first. */
  ladder: readonly Rendition[]
  segmentSeconds: number
  accelerator: 'gpu' | 'cpu'
  preset: Preset
  cores: number
  scratch: string
  signal: AbortSignal
  log: Log
}
