/** A part of the canvas, in fractions of its sides. */
interface Window {
  left: number
  right: number
  top: number
  bottom: number
}

/** The slow move over a photo (Ken Burns): the window that is seen first, and the one that is seen last. */
export interface Motion {
  begin: Window
  end: Window
}

const ZOOM = 0.08

/** A window of this size at one of nine places: 0 is left or top, 1 the middle, 2 right or bottom. */
function windowAt(zoom: number, x: 0 | 1 | 2, y: 0 | 1 | 2): Window {
  const [left, top] = [(zoom * x) / 2, (zoom * y) / 2]
  return { left, right: left + 1 - zoom, top, bottom: top + 1 - zoom }
}

const WHOLE = windowAt(0, 1, 1)
const MOTIONS: readonly Motion[] = [
  { begin: WHOLE, end: windowAt(ZOOM, 1, 1) },
  { begin: windowAt(ZOOM, 1, 1), end: WHOLE },
  { begin: windowAt(ZOOM, 0, 1), end: windowAt(ZOOM, 2, 1) },
  { begin: windowAt(ZOOM, 2, 1), end: windowAt(ZOOM, 0, 1) },
  { begin: WHOLE, end: windowAt(ZOOM, 0, 0) },
  { begin: WHOLE, end: windowAt(ZOOM, 2, 0) },
]

/**
 * Always the same move for the same photo, wherever it is in a highlight: a piece can then be used again in another order.
 * Pure.
 */
export function motionOf(digest: string): Motion {
  const motion = MOTIONS[Number.parseInt(digest.slice(0, 8), 16) % MOTIONS.length]
  return motion ?? { begin: WHOLE, end: WHOLE }
}
