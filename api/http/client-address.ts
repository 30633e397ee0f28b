import type { Request } from 'express'

/** Where a request comes from, as far as proxies are trusted. */
export const clientAddress = (req: Request): string => plainAddress(req.ip ?? '')

/**
 * A server that listens on `::` gets IPv4 clients as `::ffff:192.0.2.1`. Logs, sessions and the audit log have their
 * addresses in one form, whatever the server listens on.
 */
export const plainAddress = (address: string): string => address.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '')
