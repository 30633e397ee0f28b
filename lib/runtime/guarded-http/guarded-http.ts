import type { LookupAddress, LookupOptions } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Agent, type RequestOptions, request } from 'node:https'
import { isIP } from 'node:net'
import { isAllowed } from './addresses.ts'
import type { GuardSettings } from './settings.ts'

const MAX_URL = 2048
const MAX_BODY = 64 * 1024
const DEFAULT_SECONDS = 15
/** Of an attempt to connect, while there is another address. Node's own 250 ms are too short for other continents. */
const CONNECT_MS = 3000

/** Nothing was sent, because the address is not one that requests may go to. */
export class RefusedAddress extends Error {
  override readonly name = 'RefusedAddress'
}

/** The request may have arrived, and all of its time has passed. */
export class NoAnswerInTime extends Error {
  override readonly name = 'NoAnswerInTime'
}

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  /** At most 64 KiB; what followed, and what did not come in time, is not read. */
  body: Buffer
}

export interface Asked {
  method: 'POST' | 'GET'
  headers: Readonly<Record<string, string>>
  body?: Buffer | string
  signal?: AbortSignal
  /** From the start to the end of the answer. */
  seconds?: number
}

export interface Guard {
  /** The URL if it may be asked, as far as its text tells. Throws RefusedAddress. */
  check(text: string): URL
  /**
   * Rejects with RefusedAddress, with NoAnswerInTime, or with why there was no answer: `syscall: 'connect'` where no
   * connection was made, up to the end of the TLS handshake, so that nothing was sent, unless the lookup has failed with a
   * `syscall` of its own. Redirects are answers like others.
   */
  ask(url: string, asked: Asked): Promise<Answer>
}

export interface GuardOptions {
  /** All addresses of a name. */
  resolve?: (hostname: string) => Promise<string[]>
  /** PEM, besides the authorities that Node knows. */
  ca?: string | undefined
}

/** The URL if its text is fit to be asked: https, no credentials, a known port, and no private address. */
export function checkUrl(text: string, settings: GuardSettings): URL {
  if (text.length > MAX_URL || !URL.canParse(text)) throw new RefusedAddress('is not an address')
  const url = new URL(text)
  if (url.protocol !== 'https:') throw new RefusedAddress('must begin with https://')
  if (url.username || url.password) throw new RefusedAddress('must have no user and no password')
  if (url.hash) throw new RefusedAddress('must have no fragment')
  const port = Number(url.port) || 443
  if (!settings.OUTBOUND_PORTS.includes(port)) throw new RefusedAddress(`must not have the port ${port}`)
  // `URL` has turned spellings such as 2130706433 and 0x7f.1 into 127.0.0.1. Node looks up names only.
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) && !isAllowed(host, settings.OUTBOUND_ALLOWED_ADDRESSES)) throw new RefusedAddress('is not public')
  return url
}

/**
 * The one way to addresses that other people chose. A name is resolved once, and connections go to addresses that were
 * checked: an attacker who changes the name between check and connection gains nothing. No redirect is followed, no
 * proxy of the environment is used.
 */
export function openGuard(settings: GuardSettings, { resolve = resolveName, ca }: GuardOptions = {}): Guard {
  function lookup(
    hostname: string,
    options: LookupOptions,
    done: (error: Error | null, address: string | LookupAddress[], family?: number) => void,
  ): void {
    resolve(hostname)
      .then((found) => checked(found, settings))
      .then(
        (all) => (options.all ? done(null, all) : done(null, all[0].address, all[0].family)),
        (error: Error) => done(error, ''),
      )
  }
  // No connection is kept: an idle one that the other side closes would look like an attempt without an answer.
  const agent = new Agent({ keepAlive: false, ...(ca !== undefined && { ca }) })

  return {
    check: (text) => checkUrl(text, settings),
    async ask(text, { method, headers, body, signal, seconds = DEFAULT_SECONDS }) {
      const url = checkUrl(text, settings)
      const ends = AbortSignal.any([AbortSignal.timeout(seconds * 1000), ...(signal ? [signal] : [])])
      const length = { 'content-length': String(Buffer.byteLength(body ?? '')) }
      const options = {
        method,
        agent,
        headers: { 'user-agent': 'Keepsake', ...headers, ...length },
        signal: ends,
        lookup: lookup as RequestOptions['lookup'],
        // Tries the next address where one cannot be reached.
        autoSelectFamily: true,
        autoSelectFamilyAttemptTimeout: CONNECT_MS,
      }
      return new Promise<Answer>((resolve, reject) => {
        let [isConnected, isAnswered] = [false, false]
        const asked = request(url, options as RequestOptions, (answer) => {
          isAnswered = true
          void readSome(answer).then((read) => {
            asked.destroy()
            resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body: read })
          })
        })
        // A 101 is no response to Node, which drops its connection without a word if no one listens.
        asked.on('upgrade', ({ statusCode = 101, headers: given }, socket) => {
          socket.destroy()
          resolve({ status: statusCode, headers: given, body: Buffer.alloc(0) })
        })
        // The first byte of the request leaves behind the handshake.
        asked.on('socket', (socket) => socket.once('secureConnect', () => (isConnected = true)))
        const fail = (error: Error) => reject(isConnected ? error : unconnected(error))
        asked.on('error', (error) => {
          // Behind the head, the body says how it ended.
          if (!isAnswered) fail(ends.aborted ? late(seconds, isConnected) : error)
        })
        asked.on('close', () => {
          if (!isAnswered) fail(new Error('the connection was closed without an answer'))
        })
        asked.end(body)
      })
    },
  }
}

function late(seconds: number, isConnected: boolean): Error {
  if (isConnected) return new NoAnswerInTime(`no answer within ${seconds} s`)
  // As Node would say it, had the system given up first: it waits for two minutes where packets get lost.
  return Object.assign(new Error(`no connection within ${seconds} s`), { code: 'ETIMEDOUT' })
}

/**
 * A proxy that accepts connections and cannot pass them on closes them during the handshake, which Node reports as a
 * failure to read. Errors of the lookup name their own call.
 */
function unconnected(error: Error & { syscall?: string }): Error {
  const isOfLookup = error instanceof RefusedAddress || error.syscall?.startsWith('query')
  return isOfLookup ? error : Object.assign(error, { syscall: 'connect' })
}

/** The addresses of a name, unless one of them is not allowed: whether it is asked must not depend on luck. */
function checked(found: readonly string[], settings: GuardSettings): [LookupAddress, ...LookupAddress[]] {
  const allowed = found.filter((address) => isAllowed(address, settings.OUTBOUND_ALLOWED_ADDRESSES))
  if (allowed.length < found.length) throw new RefusedAddress('its name has an address that is not public')
  // Clusters without IPv6 are many, public services without IPv4 few.
  const [first, ...rest] = allowed
    .map((address) => ({ address, family: isIP(address) }))
    .sort((a, b) => a.family - b.family)
  if (first === undefined) throw new Error('its name has no address')
  return [first, ...rest]
}

/**
 * By c-ares: `dns.lookup` waits in the thread pool, where four names with slow servers would hold up the files and
 * connections of the whole process. It asks no search domains either, which would find services of the cluster.
 */
async function resolveName(hostname: string): Promise<string[]> {
  const resolver = new Resolver({ timeout: 3000, tries: 2 })
  const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
  const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  const failed = answers.find((answer) => answer.status === 'rejected')
  if (found.length === 0 && failed) throw failed.reason
  return found
}

/** What came of the body, up to the limit, before the answer ended in one way or another: the status is known already. */
async function readSome(answer: IncomingMessage): Promise<Buffer> {
  const read: Buffer[] = []
  let length = 0
  try {
    for await (const chunk of answer) {
      const part = chunk as Buffer
      read.push(part)
      length += part.length
      if (length >= MAX_BODY) break
    }
  } catch {
    // The status says enough.
  }
  return Buffer.concat(read).subarray(0, MAX_BODY)
}

/** Seconds of a Retry-After header (RFC 9110 §10.2.3), in either form; undefined without one. */
export function retryAfterSeconds(headers: IncomingHttpHeaders, nowMs: number = Date.now()): number | undefined {
  const text = headers['retry-after']
  if (text === undefined) return undefined
  if (/^\d{1,9}$/.test(text)) return Number(text)
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : Math.max(0, Math.ceil((at - nowMs) / 1000))
}
