import { HIGHLIGHT_FPS } from '../../lib/contract/highlight-length.ts'
import { rational } from '../ffmpeg/rational.ts'
import { ladderOf, type Rendition } from '../hls/ladder.ts'

interface Size {
  width: number
  height: number
}

export type Shape = 'landscape' | 'portrait' | 'square'

/** Width to height. */
const ASPECT = { landscape: 16 / 9, portrait: 9 / 16, square: 1 } as const

/** Short side in pixels. A highlight of tiny pictures is enlarged to this, so that its text can be read. */
const LEAST_SIDE = 180

/** The shape of the highlight: as requested, or as most of the items are shown; landscape when there are as many of each. */
export function shapeOf(orientation: Shape | 'auto', items: readonly Size[]): Shape {
  if (orientation !== 'auto') return orientation
  const portraits = items.filter((i) => i.height > i.width).length
  const landscapes = items.filter((i) => i.width > i.height).length
  return portraits > landscapes ? 'portrait' : 'landscape'
}

/**
 * The renditions of the highlight, smallest first. Those in which every item would be enlarged are omitted; when that is all
 * of them, one of the largest useful size remains. Pure.
 */
export function highlightLadder(shape: Shape, items: readonly Size[], wanted: readonly string[]): Rendition[] {
  const useful = Math.max(LEAST_SIDE, ...items.map((item) => usefulSide(shape, item)))
  const side = useful - (useful % 2)
  const [width, height] = [Math.max(1, ASPECT[shape]) * side, Math.max(1, 1 / ASPECT[shape]) * side]
  return ladderOf({ width, height, frameRate: rational(HIGHLIGHT_FPS) }, wanted)
}

/** The short side of the largest canvas into which the item fits without being enlarged. */
function usefulSide(shape: Shape, { width, height }: Size): number {
  const aspect = ASPECT[shape]
  const across = aspect >= 1 ? width / aspect : width
  const down = aspect >= 1 ? height : height * aspect
  return Math.floor(Math.max(across, down))
}
