const LOCAL = "[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}"
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?'

/** One address as RFC 5321 writes it, without quotes and comments: no sign in it can begin another address or a command. */
const ADDRESS = new RegExp(`^${LOCAL}@${LABEL}(?:\\.${LABEL})*$`)
export const isAddress = (text: string): boolean => text.length <= 254 && ADDRESS.test(text)

/** The same of a person, for JSON Schema as well: `ann@localhost` is a typing error. */
export const PUBLIC_ADDRESS = `^${LOCAL}@${LABEL}(?:\\.${LABEL})+$`
const PUBLIC = new RegExp(PUBLIC_ADDRESS)
export const isPublicAddress = (text: string): boolean => text.length <= 254 && PUBLIC.test(text)
