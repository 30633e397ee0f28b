import { stat } from 'node:fs/promises'
import { windowOf } from '../pass-window.ts'
import { timelineOf } from '../timeline.ts'
import { scanRanges } from './byte-ranges.ts'
import type { Cut } from './cut.ts'
import { encoderOf } from './encode-chunk.ts'
import type { Chunk } from './layout.ts'
import { planId, type SharedPlan, sharedSource } from './protocol.ts'
import type { LeadOptions } from './sharing.ts'

/**
 * Undefined where the file cannot be read in parts, such as one that shows a picture for longer than a decoder looks back where a
 * chunk begins.
 */
export async function planOf(o: LeadOptions, { chunks, fullFrom }: Cut): Promise<SharedPlan | undefined> {
  const { source, ladder, segmentSeconds, sharing } = o
  const timeline = timelineOf(ladder, segmentSeconds)
  const { size } = await stat(o.sourcePath)
  const times = chunks.map((chunk) => {
    const { seekSeconds, startSeconds, readSeconds } = windowOf(source, timeline, partOf(chunk))
    const to = readSeconds === undefined ? undefined : seekSeconds + readSeconds
    return { from: seekSeconds, start: startSeconds, to }
  })
  const found = await scanRanges(o.sourcePath, { source, times, fileBytes: size, signal: o.signal })
  if (!found || found.hasGap) return undefined
  const shared = { grid: timeline.grid, segmentSeconds, renditions: [...ladder], accelerator: o.accelerator }
  const pass = { ...shared, preset: o.preset }
  const plan = {
    version: 4 as const,
    ...{ sourceKey: sharing.sourceKey, sourceBytes: size, header: found.header, source: sharedSource(source) },
    ...{ ...pass, encoder: await encoderOf(pass, source, o.signal) },
    chunks: chunks.map(({ firstSegment, segments }, k) => ({
      firstSegment,
      ...(segments !== undefined && { segments }),
      isFull: k >= fullFrom,
      bytes: found.ranges[k] ?? [0, size],
    })),
  }
  return { ...plan, id: planId(plan) }
}

const partOf = ({ firstSegment, segments }: Chunk) => ({ firstSegment, segments, tag: '' })
