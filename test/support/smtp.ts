import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo, Server, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SMTPServer } from 'smtp-server'
import { type PrivateCa, privateCa } from './private-ca.ts'

export interface Received {
  from: string
  to: string[]
  raw: Buffer
}

/** How the server answers the next mails. `die` and `stall` read the whole mail first. */
export type Mood = 'accept' | '450' | '452' | '550' | '552' | '530' | 'die' | 'stall' | 'die-before-data'

export interface SmtpWorld {
  ca: string
  /** The path of the same. */
  caFile: string
  port: number
  url(o?: { password?: string; scheme?: string }): string
  received: Received[]
  sessions(): number
  be(mood: Mood): void
  /** Answers the mails of `stall`. */
  answer(): void
  /** Ends all connections, as a server does with idle ones. */
  hangUp(): void
}

interface Teardown {
  teardown(done: () => unknown): void
}

const failure = (responseCode: number, text: string) => Object.assign(new Error(text), { responseCode })

const certificates = new Map<string, Omit<PrivateCa, 'files'>>()
/** Made once for a process; the file belongs to one test file, which other ones may outlive. */
function certificate(t: Teardown, host: string): Omit<PrivateCa, 'files'> & { caFile: string } {
  const folder = mkdtempSync(join(tmpdir(), 'keepsake-smtp-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const made = certificates.get(host) ?? privateCa(folder, host)
  certificates.set(host, made)
  const caFile = join(folder, 'ca.pem')
  writeFileSync(caFile, made.ca)
  return { ...made, caFile }
}

/** A mail server that demands TLS and the password `p` of the user `u`. `host` is an address of this machine. */
export async function smtpServer(
  t: Teardown,
  o: { starttls?: boolean; secure?: boolean; host?: string } = {},
): Promise<SmtpWorld> {
  const { starttls = true, secure = false, host = '127.0.0.1' } = o
  const { key, cert, ca, caFile } = certificate(t, host)
  const received: Received[] = []
  const stalled: (() => void)[] = []
  const sockets = new Set<Socket>()
  let mood: Mood = 'accept'
  let sessions = 0
  const destroyAll = () => {
    for (const socket of sockets) socket.destroy()
  }
  const server = new SMTPServer({
    secure,
    key,
    cert,
    ...(!starttls && { hideSTARTTLS: true, disabledCommands: ['STARTTLS'] }),
    authMethods: ['PLAIN', 'LOGIN'],
    size: 1 << 20,
    disableReverseLookup: true,
    logger: false,
    onConnect(_, done) {
      sessions += 1
      done()
    },
    onAuth(auth, session, done) {
      const isRight = session.secure && auth.username === 'u' && auth.password === 'p'
      if (isRight) done(null, { user: 'u' })
      else done(failure(535, 'wrong'))
    },
    onMailFrom(_, __, done) {
      if (mood === '530') return done(failure(530, 'log in again'))
      if (mood === 'die-before-data') return destroyAll()
      done()
    },
    onRcptTo(address, _, done) {
      if (mood === '450') return done(failure(450, `4.2.0 <${address.address}> greylisted`))
      if (mood === '550') return done(failure(550, `5.1.1 <${address.address}> unknown`))
      done()
    },
    onData(stream, session, done) {
      const parts: Buffer[] = []
      stream.on('data', (part: Buffer) => parts.push(part))
      stream.on('end', () => {
        if (mood === '452') return done(failure(452, 'full'))
        if (mood === '552') return done(failure(552, 'too large'))
        const from = session.envelope.mailFrom
        const to = session.envelope.rcptTo.map(({ address }) => address)
        received.push({ from: from === false ? '' : from.address, to, raw: Buffer.concat(parts) })
        if (mood === 'die') return destroyAll()
        if (mood === 'stall') return void stalled.push(() => done())
        done()
      })
    },
  })
  server.on('error', () => {})
  const tcp: Server = server.server
  tcp.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
  })
  await new Promise<void>((resolve) => server.listen(0, host, () => resolve()))
  t.teardown(async () => {
    destroyAll()
    await new Promise<void>((resolve) => server.close(() => resolve()))
  })
  const { port } = tcp.address() as AddressInfo
  return {
    ca,
    caFile,
    port,
    url: ({ password = 'p', scheme = secure ? 'smtps' : 'smtp' } = {}) => `${scheme}://u:${password}@${host}:${port}`,
    received,
    sessions: () => sessions,
    be(next) {
      mood = next
    },
    answer() {
      for (const one of stalled.splice(0)) one()
    },
    hangUp: destroyAll,
  }
}
