import ipaddr from 'ipaddr.js'

/** A block of addresses, as of `10.0.0.0/8`. */
export type Range = ReturnType<typeof ipaddr.parseCIDR>

/** The addresses that IPv6 routes between networks; what lies outside of it reaches only this machine or this network. */
const GLOBAL_IPV6 = ipaddr.parseCIDR('2000::/3')

/** By which NAT64 reaches IPv4 (RFC 6052). The DNS64 of a network without IPv4 gives every name such an address. */
const NAT64 = ipaddr.parseCIDR('64:ff9b::/96')

/**
 * Blocks that ipaddr.js takes for ordinary addresses, or may in another version: services that clouds offer to their own
 * machines, and special blocks of the registries of IANA (iana-ipv4-special-registry, iana-ipv6-special-registry).
 */
const SPECIAL = [
  '100.100.100.200/32',
  '168.63.129.16/32',
  '192.0.0.0/24',
  '192.88.99.0/24',
  '198.18.0.0/15',
  '64:ff9b:1::/48',
  '100::/64',
  '2001::/23',
  '2001:db8::/32',
  '2002::/16',
  '3fff::/20',
  '5f00::/16',
  'fd00:ec2::254/128',
  'fec0::/10',
].map((text) => ipaddr.parseCIDR(text))

type Address = ReturnType<typeof ipaddr.process>

const isIn = (address: Address, [network, bits]: Range) =>
  address.kind() === network.kind() && address.match(network, bits)

/** `process` takes the IPv4 address out of `::ffff:a.b.c.d`. With a zone (`fe80::1%eth0`) an address is never public. */
const parse = (text: string): Address | undefined =>
  ipaddr.isValid(text) && !text.includes('%') ? ipaddr.process(text) : undefined

/** The IPv4 address that an address of NAT64 stands for; any other address itself. */
const behindNat64 = (address: Address | undefined): Address | undefined =>
  address && isIn(address, NAT64) ? ipaddr.fromByteArray(address.toByteArray().slice(-4)) : address

/** Whether the public Internet routes to this address. False for text that is no address. */
export function isPublic(text: string): boolean {
  const address = behindNat64(parse(text))
  if (address?.range() !== 'unicast') return false
  if (address.kind() === 'ipv6' && !isIn(address, GLOBAL_IPV6)) return false
  return !SPECIAL.some((range) => isIn(address, range))
}

/** Whether the address is public, or in one of the blocks. */
export function isAllowed(text: string, ranges: readonly Range[]): boolean {
  const address = parse(text)
  return address !== undefined && (isPublic(text) || ranges.some((range) => isIn(address, range)))
}

/** Undefined for text that is not like `10.1.0.0/16`. */
export const parseRange = (text: string): Range | undefined =>
  ipaddr.isValidCIDR(text) ? ipaddr.parseCIDR(text) : undefined
