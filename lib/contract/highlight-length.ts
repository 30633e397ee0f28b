/** Frames per second of every highlight. */
export const HIGHLIGHT_FPS = 30

/** A crossfade lasts half a second where both items are long enough. */
const CROSSFADE_FRAMES = 15

export interface HighlightLength {
  /** The frame of the highlight at which each item begins; with a crossfade, at which the crossfade into it begins. */
  starts: number[]
  /** Frames that item k and item k + 1 share; one fewer than items. All 0 unless the transition is crossfade. */
  overlaps: number[]
  /** Frames of the highlight. */
  total: number
}

/**
 * Where each item of a highlight begins and how long the highlight is. The job renders by it and the API estimates by it. A
 * crossfade takes at most half of the shorter of its two items, so the two crossfades of an item never meet. Pure.
 */
export function highlightFrames(
  items: readonly { frames: number }[],
  transition: 'cut' | 'crossfade' | 'fade',
): HighlightLength {
  const overlaps = items.slice(1).map(({ frames }, k) => {
    if (transition !== 'crossfade') return 0
    return Math.min(CROSSFADE_FRAMES, Math.floor(Math.min(frames, items[k]?.frames ?? 0) / 2))
  })
  const starts: number[] = []
  let end = 0
  for (const [k, { frames }] of items.entries()) {
    const start = end - (overlaps[k - 1] ?? 0)
    starts.push(start)
    end = start + frames
  }
  return { starts, overlaps, total: end }
}

/** Frames of an item that is shown for these seconds; at least one. */
export const framesOf = (seconds: number): number => Math.max(1, Math.round(seconds * HIGHLIGHT_FPS))
