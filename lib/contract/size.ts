/** A limit for people: in the largest unit of which it is a whole number, e.g. 10 GiB or 512 MiB. */
export function sizeText(bytes: number): string {
  const [unit, size] = UNITS.find(([, size]) => bytes >= size && bytes % size === 0) ?? ['bytes', 1]
  return `${bytes / size} ${unit}`
}

const UNITS = [
  ['GiB', 1024 ** 3],
  ['MiB', 1024 ** 2],
  ['KiB', 1024],
] as const
