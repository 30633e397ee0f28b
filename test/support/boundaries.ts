/**
 * Where the parts of an image file begin: markers, chunks, blocks or boxes, nested ones too. Written apart from the
 * parsers of the product, so that both would have to be wrong in the same way.
 */
export const boundariesOf: Readonly<Record<string, (file: Buffer) => number[]>> = {
  jpeg: jpegMarkers,
  png: (file) => walk(file, 8, (at) => 12 + file.readUInt32BE(at)),
  webp: (file) => [8, ...walk(file, 12, (at) => 8 + even(file.readUInt32LE(at + 4)))],
  gif: gifBlocks,
  heif: (file) => boxes(file, 0, file.length),
}

const even = (n: number) => n + (n % 2)

function walk(file: Buffer, from: number, lengthAt: (at: number) => number): number[] {
  const found: number[] = []
  for (let at = from; at < file.length; at += lengthAt(at)) found.push(at)
  return found
}

/** Every marker, restart markers and those between scans among them. */
function jpegMarkers(file: Buffer): number[] {
  const found: number[] = []
  for (let at = 0; at + 1 < file.length; at++) {
    const marker = file[at + 1] ?? 0
    if (file[at] !== 0xff || marker === 0 || marker === 0xff) continue
    found.push(at)
    const isAlone = marker >= 0xd0 && marker <= 0xd9
    if (!isAlone) at += 1 + file.readUInt16BE(at + 2)
  }
  return found
}

function gifBlocks(file: Buffer): number[] {
  const table = (flags: number) => (flags & 0x80 ? 3 * 2 ** ((flags & 7) + 1) : 0)
  const found: number[] = [6, 13]
  let at = 13 + table(file[10] ?? 0)
  while (at < file.length) {
    found.push(at)
    if (file[at] === 0x3b) return found
    at += file[at] === 0x2c ? 11 + table(file[at + 9] ?? 0) : 2
    for (; file[at] !== 0; at += 1 + (file[at] ?? 0)) found.push(at)
    found.push(at)
    at += 1
  }
  return found
}

/** How many bytes of each box come before the boxes that it contains. */
const CONTAINERS: Readonly<Record<string, number>> = { meta: 4, iprp: 0, ipco: 0, iinf: 6, iref: 4, dinf: 0 }

function boxes(file: Buffer, from: number, to: number): number[] {
  const found: number[] = []
  for (let at = from; at + 8 <= to; at += file.readUInt32BE(at)) {
    const skipped = CONTAINERS[file.toString('latin1', at + 4, at + 8)]
    found.push(at, at + 8)
    if (skipped !== undefined) found.push(...boxes(file, at + 8 + skipped, at + file.readUInt32BE(at)))
  }
  return found
}
