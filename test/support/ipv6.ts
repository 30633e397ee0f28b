import { networkInterfaces } from 'node:os'

const addresses = Object.values(networkInterfaces()).flatMap((some) => some?.map(({ address }) => address) ?? [])

/** For `skip`: why a test cannot listen on addresses of IPv6. */
export const noIpv6 = addresses.includes('::1') ? false : 'this machine has no IPv6'
