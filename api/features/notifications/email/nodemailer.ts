import { Readable } from 'node:stream'
import { createTransport } from 'nodemailer'
import SMTPConnection from 'nodemailer/lib/smtp-connection'
import type { Outcome } from '../channel.ts'
import type { Mail } from './mail.ts'

/** The only file that knows nodemailer. */

const toBytes = createTransport({
  streamTransport: true,
  buffer: true,
  newline: 'windows',
  disableFileAccess: true,
  disableUrlAccess: true,
})

/** The bytes of a mail, as a server gets them and as an .eml file holds them. */
export async function bytesOf({ to, headers, ...mail }: Mail): Promise<Buffer> {
  const { message } = await toBytes.sendMail({
    ...mail,
    to: { name: '', address: to },
    headers: { ...headers },
    envelope: { from: mail.from.address, to: [to] },
  })
  if (!Buffer.isBuffer(message)) throw new TypeError('no bytes of a mail')
  return message
}

export interface SmtpOptions {
  /** smtp:// begins with STARTTLS, smtps:// with TLS. With user and password, unless the server needs none. */
  url: string
  /** Whether a server that offers no STARTTLS, or an attacker who removes the offer, gets no mail. */
  requireTls: boolean
  /** PEM, besides the authorities that Node knows. */
  ca?: string | Buffer | undefined
  /** Idle connections that are kept. */
  most: number
  timeouts?: Partial<Timeouts>
}

interface Timeouts {
  connectMs: number
  /** Without a byte from the server. After the end of a mail, RFC 5321 §4.5.3.2.6 asks for ten minutes. */
  silenceMs: number
}

export interface Smtp {
  deliver(mail: Mail, signal: AbortSignal): Promise<Outcome>
  close(): void
}

/** A mail server reached over connections that are used again: a new one costs several round trips. */
export function openSmtp({ url, requireTls, ca, most, timeouts = {} }: SmtpOptions): Smtp {
  const { connectMs = 15_000, silenceMs = 60_000 } = timeouts
  const { protocol, hostname, port, username, password } = new URL(url)
  const secure = protocol === 'smtps:'
  const auth = username ? { user: decodeURIComponent(username), pass: decodeURIComponent(password) } : undefined
  const idle: SMTPConnection[] = []
  const open = new Set<SMTPConnection>()
  let isClosed = false

  /** Rejects with what went wrong before any mail was named. */
  function connect(signal: AbortSignal): Promise<SMTPConnection> {
    const connection = new SMTPConnection({
      host: hostname.replace(/^\[(.*)\]$/, '$1'),
      port: Number(port) || (secure ? 465 : 587),
      secure,
      requireTLS: !secure && requireTls,
      connectionTimeout: connectMs,
      greetingTimeout: connectMs,
      dnsTimeout: connectMs,
      socketTimeout: silenceMs,
      ...(ca !== undefined && { tls: { ca } }),
    })
    open.add(connection)
    connection.once('end', () => forget(connection))
    return new Promise((resolve, reject) => {
      const fail = (error: Error) => {
        forget(connection)
        connection.close()
        reject(error)
      }
      signal.addEventListener('abort', () => fail(new Error('too late')), { once: true })
      // Also for as long as it lies idle: an error without a listener would end the process.
      connection.on('error', fail)
      connection.connect((error) => {
        if (error) return fail(error)
        if (!auth) return resolve(connection)
        connection.login({ ...auth, credentials: auth }, (refused) => (refused ? fail(refused) : resolve(connection)))
      })
    })
  }

  function forget(connection: SMTPConnection): void {
    open.delete(connection)
    const at = idle.indexOf(connection)
    if (at >= 0) idle.splice(at, 1)
  }

  function keep(connection: SMTPConnection): void {
    if (!isClosed && idle.length < most && open.has(connection)) idle.push(connection)
    else connection.quit()
  }

  async function deliver(mail: Mail, signal: AbortSignal): Promise<Outcome> {
    const bytes = await bytesOf(mail)
    for (;;) {
      const known = idle.pop()
      let connection: SMTPConnection
      try {
        connection = known ?? (await connect(signal))
      } catch (error) {
        return { is: 'paused', reason: `the mail server cannot be used: ${said(error as SmtpError)}` }
      }
      const tried = await transfer(connection, mail, bytes, signal)
      giveBack(connection, tried)
      if (!('error' in tried)) return tried
      // The server had closed the idle connection, and has not seen this mail.
      if (!known || signal.aborted || isAnswered(tried) || tried.hasBegun) return outcomeOf(tried)
    }
  }

  function giveBack(connection: SMTPConnection, tried: Failed | Sent): void {
    if (!('error' in tried)) keep(connection)
    else if (!isAnswered(tried)) connection.close()
    // The server answered, so it is ready for the next mail after a reset.
    else connection.reset((error) => (error ? connection.close() : keep(connection)))
  }

  return {
    deliver,
    close() {
      isClosed = true
      for (const connection of idle) connection.quit()
      for (const connection of open) connection.close()
    },
  }
}

interface SmtpError extends Error {
  code?: string
  responseCode?: number
  command?: string
  response?: string
}

interface Failed {
  error: SmtpError
  /** Whether the server has been given bytes of the mail. nodemailer cannot tell a failed connection from a death then. */
  hasBegun: boolean
}

type Sent = { is: 'sent' }

const isAnswered = ({ error }: Failed) => error.responseCode !== undefined

function transfer(
  connection: SMTPConnection,
  { from, to }: Mail,
  bytes: Buffer,
  signal: AbortSignal,
): Promise<Failed | Sent> {
  let hasBegun = false
  // Read when the server has answered DATA, and not before.
  const message = new Readable({
    read() {
      hasBegun = true
      this.push(bytes)
      this.push(null)
    },
  })
  return new Promise((resolve) => {
    const failed = (error: Error) => resolve({ error, hasBegun })
    const abort = () => {
      failed(new Error('too late'))
      connection.close()
    }
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) return abort()
    const envelope = { from: from.address, to: [to], size: bytes.length }
    connection.send(envelope, message, (error) => {
      signal.removeEventListener('abort', abort)
      if (error) failed(error)
      else resolve({ is: 'sent' })
    })
  })
}

/** The server wants another login, or none of this sender's mail: no recipient is to blame. */
const OF_THE_CHANNEL = [530, 534, 535, 538]

/** What a failed transfer means. Exported for its test. */
export function outcomeOf({ error, hasBegun }: Failed): Outcome {
  const reason = said(error)
  const { responseCode, command } = error
  if (responseCode === undefined) {
    if (hasBegun) return { is: 'unknown', reason: `no answer after the mail: ${reason}` }
    if (error.code === 'EMESSAGE' || error.code === 'EENVELOPE') return { is: 'refused', reason }
    return { is: 'later', reason: `the connection broke before the mail: ${reason}` }
  }
  // No recipient has been named yet. Not what is refused later: one recipient must not stop the mails to all others.
  if (OF_THE_CHANNEL.includes(responseCode) || command === 'MAIL FROM') {
    return { is: 'paused', reason: `the mail server refuses the sender: ${reason}` }
  }
  return responseCode >= 500 ? { is: 'refused', reason } : { is: 'later', reason }
}

/** For administrators: codes, never what the server wrote, which often repeats the address. */
const said = ({ code, responseCode, command, response }: SmtpError) => {
  const enhanced = /^\d{3}[ -](\d\.\d{1,3}\.\d{1,3})\b/.exec(response ?? '')?.[1]
  return (
    [code, responseCode, enhanced, command && `at ${command}`].filter((part) => part !== undefined).join(' ') ||
    'no answer'
  )
}
