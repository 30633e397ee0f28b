/**
 * Which items of an album have elements: those of the whole rows between two heights of the list, and those named by
 * `also`, indexes that must stay. Returns them as `from` (inclusive) and `to` (exclusive), the height `above` them, and the
 * `height` of the whole list. Every row is equally high, so nothing moves when rows come and go.
 */
export function windowOf({ count, columns, row, gap }, top, bottom, also = []) {
  const rows = Math.ceil(count / columns)
  const rowAt = (y) => Math.min(rows, Math.max(0, Math.floor(y / (row + gap))))
  const indexes = also.filter((index) => index >= 0 && index < count)
  const first = Math.min(rowAt(top), ...indexes.map((index) => Math.floor(index / columns)))
  const last = Math.max(rowAt(bottom) + 1, ...indexes.map((index) => Math.floor(index / columns) + 1))
  return {
    from: first * columns,
    to: Math.min(count, last * columns),
    above: first * (row + gap),
    height: Math.max(0, rows * (row + gap) - gap),
  }
}

/**
 * The grid of an album in pixels, for its width: squares with two lines of words below them, if it `hasWords`. Rows are
 * equally high, so that it is known where each of thousands is without making it.
 */
export function gridOf(width, { hasWords, rem }) {
  const isNarrow = width < 37 * rem
  const across = isNarrow ? 0.625 * rem : rem
  const columns = isNarrow ? 2 : Math.floor((width + across) / (14 * rem + across))
  const side = (width - across * (columns - 1)) / columns
  return { columns, across, gap: isNarrow ? 0.875 * rem : 1.25 * rem, row: side + (hasWords ? 3.25 * rem : 0) }
}
