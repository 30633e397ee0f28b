/** One address as RFC 5321 writes it, without quotes and comments: no sign in it can begin another address or a command. */
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?'
const ADDRESS = new RegExp(`^[A-Za-z0-9.!#$%&'*+/=?^_\`{|}~-]{1,64}@${LABEL}(?:\\.${LABEL})*$`)

export const isAddress = (text: string): boolean => text.length <= 254 && ADDRESS.test(text)

export interface Sender {
  name: string
  address: string
}

/** `Keepsake <no-reply@example.org>`, or the address alone; undefined for anything else. */
export function parseSender(text: string): Sender | undefined {
  const [, name = '', address = text] = /^([^<>"\r\n]*)<([^<>]*)>$/.exec(text.trim()) ?? []
  return isAddress(address.trim()) ? { name: name.trim(), address: address.trim() } : undefined
}

export const domainOf = (address: string): string => address.slice(address.lastIndexOf('@') + 1)
