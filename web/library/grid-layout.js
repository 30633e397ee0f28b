const GAP = 4
const HEADING = 64
const MARGIN = 20

/** Columns and the side of a square, for the width of the grid. */
export function gridFor(width) {
  const wanted = width < 600 ? 108 : width < 1000 ? 168 : 196
  const columns = Math.max(3, Math.floor((width + GAP) / (wanted + GAP)))
  return { columns, gap: GAP, side: (width - GAP * (columns - 1)) / columns }
}

/** Where each month lies. Every height follows from the counts, so nothing moves when pictures arrive. */
export function layOut(months, { columns, side, gap }) {
  let top = 0
  return months.map(({ month, title, count, places }) => {
    const rows = Math.ceil(places / columns)
    const height = HEADING + rows * (side + gap) + MARGIN
    const section = { month, title, count, places, top, height, rows }
    top += height
    return section
  })
}

/** The places of a month between two heights: `from` inclusive, `to` exclusive, and the rows above them. */
export function placesBetween(section, { columns, side, gap }, top, bottom) {
  const row = (y) => (y - section.top - HEADING) / (side + gap)
  const first = Math.max(0, Math.floor(row(top)))
  const last = Math.min(section.rows, Math.ceil(row(bottom)))
  if (first >= last) return { from: 0, to: 0, above: 0 }
  return { from: first * columns, to: Math.min(section.places, last * columns), above: first }
}

/** Where the row of a place begins. */
export const topOf = (section, { columns, side, gap }, index) =>
  section.top + HEADING + Math.floor(index / columns) * (side + gap)

export const isWithin = (section, top, bottom) => section.top < bottom && section.top + section.height > top

/** The month at a height: the last that begins at it or above it. */
export const monthAt = (sections, y) => sections.findLast((s) => s.top <= y) ?? sections[0]
