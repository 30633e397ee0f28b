import { connect, type Socket } from 'node:net'

/** What a caller sends who takes as much of the API as it can. */
export interface Greed {
  port: number
  token: string
  /** Wire id of the caller's organization. */
  org: string
  /** Wire id of an event of the caller, whose row is locked meanwhile. */
  event: string
}

interface Hunger {
  method: string
  path: string
  /** A body that it announces; more than `sent` never comes. */
  announces?: { type: string; length: number; sent: string }
  times: number
}

const JSON_TYPE = 'application/json'
const FORM_TYPE = 'multipart/form-data; boundary=b'

const hungers = ({ org, event }: Greed): Hunger[] => [
  {
    method: 'POST',
    path: `/api/media/${org}/upload`,
    announces: { type: JSON_TYPE, length: 1000, sent: '' },
    times: 300,
  },
  {
    method: 'POST',
    path: `/api/media/${org}/single`,
    announces: { type: FORM_TYPE, length: 1e6, sent: '--b\r\n' },
    times: 128,
  },
  // Without a document: those above would leave it hardly a slot.
  { method: 'DELETE', path: `/api/orgs/${org}/events/${event}`, times: 30 },
]

/** Announces documents and forms that it never sends, and deletes a locked event, again and again until it is stopped. */
export function beGreedy(greed: Greed): { stop(): void } {
  const sockets = new Set<Socket>()
  let isOver = false
  const open = (hunger: Hunger) => {
    if (isOver) return
    const { method, path, announces } = hunger
    const socket = connect(greed.port, '127.0.0.1').on('error', () => {})
    sockets.add(socket)
    const headers = [
      `${method} /v1${path} HTTP/1.1`,
      'Host: x',
      'Connection: close',
      `Authorization: Bearer ${greed.token}`,
      ...(announces ? [`Content-Type: ${announces.type}`, `Content-Length: ${announces.length}`] : []),
    ]
    socket.write(`${headers.join('\r\n')}\r\n\r\n${announces?.sent ?? ''}`)
    // Reads the answer to its end; a refusal only makes it try again.
    socket.resume().once('close', () => {
      sockets.delete(socket)
      setTimeout(open, AGAIN_MS, hunger)
    })
  }
  for (const hunger of hungers(greed)) for (let i = 0; i < hunger.times; i++) open(hunger)
  return {
    stop() {
      isOver = true
      for (const socket of sockets) socket.destroy()
    },
  }
}

const AGAIN_MS = 100
