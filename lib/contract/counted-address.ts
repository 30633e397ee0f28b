/**
 * The key under which an address is counted: IPv4 the address, IPv6 its /64, as a customer has at least one whole /64.
 * Accepts the forms that proxies write into X-Forwarded-For: brackets, ports, zones, IPv4 mapped into IPv6. Other text
 * is its own key.
 */
export function countedAddress(ip: string): string {
  const bare = /^\[(.*)\](?::\d+)?$/.exec(ip)?.[1] ?? /^([\d.]+):\d+$/.exec(ip)?.[1] ?? ip
  const groups = groupsOf(bare.toLowerCase().replace(/%.*$/, ''))
  if (!groups) return bare.slice(0, MAX_ADDRESS)
  const [high = 0, low = 0] = groups.slice(6)
  const isMapped = groups[5] === 0xffff && groups.slice(0, 5).every((group) => group === 0)
  if (isMapped) return [high >> 8, high & 255, low >> 8, low & 255].join('.')
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`
}

const MAX_ADDRESS = 64
const GROUPS = 8

/** The eight numbers of an IPv6 address (RFC 4291 §2.2); undefined for anything else. */
function groupsOf(text: string): number[] | undefined {
  if (text.length > MAX_ADDRESS || !text.includes(':')) return undefined
  const halves = text.replace(/(\d+)\.(\d+)\.(\d+)\.(\d+)$/, mappedGroups).split('::')
  if (halves.length > 2) return undefined
  const [head = [], tail = []] = halves.map((half) => (half === '' ? [] : half.split(':')))
  const missing = GROUPS - head.length - tail.length
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined
  const all = [...head, ...Array<string>(missing).fill('0'), ...tail]
  return all.every((group) => /^[0-9a-f]{1,4}$/.test(group))
    ? all.map((group) => Number.parseInt(group, 16))
    : undefined
}

function mappedGroups(_whole: string, ...bytes: string[]): string {
  const [a = 0, b = 0, c = 0, d = 0] = bytes.slice(0, 4).map(Number)
  return [a, b, c, d].every((byte) => byte < 256)
    ? `${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`
    : 'not an address'
}
