import { isAddress } from '../../../requests/mail-address.ts'

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
