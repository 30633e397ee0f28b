import { type IncomingHttpHeaders, request } from 'node:http'
import type { Socket } from 'node:net'
import { eventually } from './eventually.ts'

export interface ServerEvent {
  event: string
  id: string
  data: string
}

export interface Followed {
  status: number
  headers: IncomingHttpHeaders
  /** Those that fire, in order. */
  events: ServerEvent[]
  /** All that arrived. */
  text: string
  /** The position so far. */
  lastId: string
  retry: number | undefined
  isOver: boolean
  socket: Socket
  /** Resolves with the first event of this name, and with nothing if the stream ends before. */
  next(event: string): Promise<ServerEvent | undefined>
  over(): Promise<void>
  leave(): void
}

/** Reads an event stream as the HTML Living Standard §9.2.6 says. Resolves when the first bytes have arrived. */
export function follow(
  url: string,
  { token, headers = {} }: { token?: string | undefined; headers?: Record<string, string> } = {},
): Promise<Followed> {
  return new Promise((resolve, reject) => {
    const all = { accept: 'text/event-stream', ...(token && { authorization: `Bearer ${token}` }), ...headers }
    const req = request(url, { headers: all, agent: false }, (res) => {
      let rest = ''
      const it: Followed = {
        status: res.statusCode ?? 0,
        headers: res.headers,
        events: [],
        text: '',
        lastId: '',
        retry: undefined,
        isOver: false,
        socket: res.socket,
        async next(event) {
          const found = () => it.events.find((one) => one.event === event)
          await eventually(`the event ${event}`, () => found() ?? it.isOver)
          return found()
        },
        over: async () => void (await eventually('the end of the stream', () => it.isOver)),
        leave: () => void req.destroy(),
      }
      res.setEncoding('utf8').on('data', (text: string) => {
        it.text += text
        const blocks = (rest + text).split('\n\n')
        rest = blocks.pop() ?? ''
        for (const block of blocks) read(it, block)
        resolve(it)
      })
      const over = () => {
        it.isOver = true
        resolve(it)
      }
      res.on('close', over).on('error', over)
    })
    req.on('error', reject).end()
  })
}

function read(it: Followed, block: string): void {
  const fields = new Map(
    block.split('\n').map((line) => {
      const at = line.indexOf(':')
      return [line.slice(0, at), line.slice(at + 1).trimStart()] as const
    }),
  )
  it.lastId = fields.get('id') ?? it.lastId
  if (fields.has('retry')) it.retry = Number(fields.get('retry'))
  const data = fields.get('data')
  if (data !== undefined) it.events.push({ event: fields.get('event') ?? 'message', id: it.lastId, data })
}
