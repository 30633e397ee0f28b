import type { AddressInfo, Server } from 'node:net'

/** With which programs on this machine reach a server that listens, also one that listens on all addresses. */
export function serverUrl(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo
  if (address === '0.0.0.0' || address === '::') return `http://127.0.0.1:${port}`
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
