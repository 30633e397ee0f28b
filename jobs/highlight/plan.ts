import { HIGHLIGHT_FPS, highlightFrames } from '../../lib/contract/highlight-length.ts'
import type { Layout } from '../hls/timeline.ts'

/**
 * A part of the highlight that is encoded by itself. `clip` shows the frames `from` to `from + frames` of an item;
 * `crossfade` shows them while the first frames of the next item appear over them.
 */
export interface Piece {
  kind: 'clip' | 'crossfade'
  /** The position of the item among those of the plan. */
  item: number
  /** In frames of the item. */
  from: number
  frames: number
  /** The frame of the highlight at which the piece begins. */
  start: number
}

export interface HighlightPlan {
  /** The frame of the highlight at which each item begins. */
  starts: number[]
  /** Frames that item k and item k + 1 share. */
  overlaps: number[]
  total: number
  /** In playback order, without gaps. */
  pieces: Piece[]
}

/** Frames from one keyframe of a piece to the next. */
export const KEYFRAME_FRAMES = HIGHLIGHT_FPS

type Transition = 'cut' | 'crossfade' | 'fade'

/** Divides a highlight into pieces. Fades happen within the pieces and need none of their own. Pure. */
export function planHighlight(items: readonly { frames: number }[], transition: Transition): HighlightPlan {
  const { starts, overlaps, total } = highlightFrames(items, transition)
  const pieces = items.flatMap(({ frames }, item): Piece[] => {
    const begin = starts[item] ?? 0
    const overlap = overlaps[item] ?? 0
    const at = (kind: Piece['kind'], from: number, to: number) => ({
      kind,
      item,
      from,
      frames: to - from,
      start: begin + from,
    })
    const cuts = [overlaps[item - 1] ?? 0, ...ownEnds(items, item, transition), frames - overlap]
    return [
      ...cuts.slice(1).map((to, i) => at('clip', cuts[i] ?? 0, to)),
      at('crossfade', frames - overlap, frames),
    ].filter((piece) => piece.frames > 0)
  })
  return { starts, overlaps, total, pieces }
}

/**
 * The first item of a highlight with crossfades has its first half second as a piece of its own, and the last item its last:
 * what remains is the same piece as that of this item in the middle of another highlight.
 */
function ownEnds(items: readonly { frames: number }[], item: number, transition: Transition): number[] {
  if (transition !== 'crossfade' || items.length === 1) return []
  const frames = items[item]?.frames ?? 0
  const full = highlightFrames([{ frames }, { frames }], transition).overlaps[0] ?? 0
  if (item === 0) return [full]
  return item === items.length - 1 ? [frames - full] : []
}

/** Where the highlight has keyframes: at the beginning of each piece, and each second within it. */
export const keyframesOf = ({ pieces }: HighlightPlan): number[] =>
  pieces.flatMap(({ start, frames }) =>
    Array.from({ length: Math.ceil(frames / KEYFRAME_FRAMES) }, (_, k) => start + k * KEYFRAME_FRAMES),
  )

/** A segment ends at the last keyframe at or before `segmentSeconds` from its beginning. Pure. */
export function layoutOf(plan: HighlightPlan, segmentSeconds: number): Layout {
  const keyframes = keyframesOf(plan)
  const starts: number[] = []
  let previous = 0
  for (const frame of [...keyframes, plan.total]) {
    const start = starts.at(-1)
    if (start === undefined) starts.push(frame)
    else if (frame - start > segmentSeconds * HIGHLIGHT_FPS) starts.push(previous)
    previous = frame
  }
  return { keyframes, starts, frames: plan.total }
}
