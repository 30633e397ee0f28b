/** Whether a host is one of the push services: `web.push.example`, or `*.push.example` for all names below. */
export const isPushHost = (host: string, hosts: readonly string[]): boolean =>
  hosts.some((known) => (known.startsWith('*.') ? host.endsWith(known.slice(1)) : host === known))
