export interface Size {
  width: number
  height: number
}

/** What surrounds an item of another shape than the highlight. */
export type Fill = 'blur' | 'black'

/** An item whose shape differs less than this is stretched: bars of a few pixels look like a mistake. */
const NEARLY = 0.02

export const fillsCanvas = (item: Size, canvas: Size): boolean =>
  Math.abs((item.width * canvas.height) / (item.height * canvas.width) - 1) < NEARLY

/** The largest place for the item in the middle of the canvas. Even numbers, because colours have half the pixels. */
export function fitInside(item: Size, canvas: Size): Size & { x: number; y: number } {
  const scale = Math.min(canvas.width / item.width, canvas.height / item.height)
  const side = (pixels: number, most: number) => Math.min(most, Math.max(2, 2 * Math.round((pixels * scale) / 2)))
  const [width, height] = [side(item.width, canvas.width), side(item.height, canvas.height)]
  const middle = (room: number) => 2 * Math.floor(room / 4)
  return { width, height, x: middle(canvas.width - width), y: middle(canvas.height - height) }
}

/** The size at which the item covers a canvas of this size, of which the middle is then cut out. */
export function coverOf(item: Size, canvas: Size): Size {
  const scale = Math.max(canvas.width / item.width, canvas.height / item.height)
  const side = (pixels: number, least: number) => Math.max(least, 2 * Math.ceil((pixels * scale) / 2))
  return { width: side(item.width, canvas.width), height: side(item.height, canvas.height) }
}
