import { corrupt } from './header.ts'
import { type Box, boxesIn, cursor } from './heif-boxes.ts'

/** ISO/IEC 23008-12: what the `meta` box says of the items in the file. */
export interface Meta {
  primary: number
  items: ReadonlyMap<number, Item>
  /** From an item to those it is derived from or describes. */
  references: readonly { type: string; from: number; to: readonly number[] }[]
  idat: Buffer
}

export interface Item {
  type: string
  contentType: string
  properties: Box[]
  extents: readonly { inIdat: boolean; offset: number; length: number }[]
}

const MAX_ITEMS = 8192
/** Of all items together: places in the file, properties, or references. Pictures of 4096 tiles need four a tile. */
const MAX_LINKS = 16 * MAX_ITEMS

/** Reads a `meta` box. Pure. */
export function readMeta(meta: Box): Meta {
  const boxes = boxesIn(meta.data.subarray(4), meta.at + 4)
  const find = (type: string) => boxes.find((b) => b.type === type)?.data
  const items = itemsOf(find('iinf'))
  readProperties(find('iprp'), items)
  readLocations(find('iloc'), items)
  const primary = cursor(find('pitm') ?? Buffer.alloc(0))
  const isLong = primary.number(4) >= 2 ** 24
  return {
    primary: primary.number(isLong ? 4 : 2),
    items,
    references: referencesOf(find('iref')),
    idat: find('idat') ?? Buffer.alloc(0),
  }
}

function itemsOf(iinf: Buffer | undefined): Map<number, Item> {
  const items = new Map<number, Item>()
  if (!iinf) throw corrupt()
  for (const box of boxesIn(iinf.subarray(iinf[0] === 0 ? 6 : 8))) {
    if (box.type !== 'infe') continue
    if (items.size >= MAX_ITEMS) throw corrupt('The image has too many parts')
    const entry = cursor(box.data)
    const version = entry.number(1)
    if (version < 2) continue
    entry.number(3)
    const id = entry.number(version === 2 ? 2 : 4)
    entry.number(2)
    const type = entry.text(4)
    const [, contentType = ''] = entry.rest().subarray(0, 512).toString('latin1').split('\0')
    items.set(id, { type, contentType, properties: [], extents: [] })
  }
  return items
}

type Cursor = ReturnType<typeof cursor>

/** Adds up counts. An entry of a list may take no bytes, so that the length of the file limits nothing. */
function counter() {
  let total = 0
  return (count: number): number => {
    total += count
    if (total > MAX_LINKS) throw corrupt('The image has too many parts')
    return count
  }
}

function readProperties(iprp: Buffer | undefined, items: Map<number, Item>): void {
  const boxes = boxesIn(iprp ?? Buffer.alloc(0))
  const ipco = boxes.find((b) => b.type === 'ipco')
  const properties = ipco ? boxesIn(ipco.data, ipco.at) : []
  const counted = counter()
  for (const box of boxes.filter((b) => b.type === 'ipma')) {
    const entry = cursor(box.data)
    const idBytes = entry.number(1) < 1 ? 2 : 4
    const indexBytes = entry.number(3) % 2 === 1 ? 2 : 1
    for (let i = countOf(entry, 4); i > 0; i--) {
      const item = items.get(entry.number(idBytes))
      const indices = Array.from({ length: counted(entry.number(1)) }, () => entry.number(indexBytes))
      // The highest bit says that readers must know the property.
      const own = indices.flatMap((n) => properties[(n & (indexBytes === 2 ? 0x7fff : 0x7f)) - 1] ?? [])
      item?.properties.push(...own)
    }
  }
}

function countOf(entry: Cursor, bytes: number): number {
  const count = entry.number(bytes)
  if (count > MAX_ITEMS) throw corrupt()
  return count
}

function readLocations(iloc: Buffer | undefined, items: Map<number, Item>): void {
  if (!iloc) throw corrupt()
  const entry = cursor(iloc)
  const version = entry.number(1)
  entry.number(3)
  const [sizes, more] = [entry.number(1), entry.number(1)]
  const bytes = { offset: sizes >> 4, length: sizes & 15, base: more >> 4, index: version > 0 ? more & 15 : 0 }
  const idBytes = version < 2 ? 2 : 4
  const counted = counter()
  for (let i = countOf(entry, idBytes); i > 0; i--) {
    const item = items.get(entry.number(idBytes))
    const inIdat = version > 0 && (entry.number(2) & 15) === 1
    entry.number(2)
    const base = entry.number(bytes.base)
    const extents = Array.from({ length: counted(entry.number(2)) }, () => {
      entry.number(bytes.index)
      return { inIdat, offset: base + entry.number(bytes.offset), length: entry.number(bytes.length) }
    })
    if (item) item.extents = extents
  }
}

function referencesOf(iref: Buffer | undefined): Meta['references'] {
  if (!iref) return []
  const width = iref[0] === 0 ? 2 : 4
  const counted = counter()
  return boxesIn(iref.subarray(4)).map((box) => {
    const entry = cursor(box.data)
    const from = entry.number(width)
    const to = Array.from({ length: counted(entry.number(2)) }, () => entry.number(width))
    return { type: box.type, from, to }
  })
}
