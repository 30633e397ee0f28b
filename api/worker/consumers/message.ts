import { createHash } from 'node:crypto'
import { CloudEvent, type ReceivedEvent, receivedEvent } from '../../../lib/contract/events.ts'
import { parseId, type Uuid } from '../../../lib/contract/ids.ts'
import type { Delivery } from '../../../lib/runtime/event-bus/event-bus.ts'
import { safeMessage } from '../../../lib/runtime/log-error.ts'
import type { Message } from './queries.ts'

export interface ReceivedMessage extends Message {
  /** Undefined where `problem` says why it cannot be read. */
  event: ReceivedEvent | undefined
  problem: string | undefined
  deliveries: number
}

/** Begins the reason of what this version could not read, and a later one may. Earlier versions wrote the same. */
export const NOT_READABLE = 'Not readable: '

/** Characters of a message that is not an event of ours: enough to see where it comes from. */
const MAX_TEXT = 16_384

export function messageOf({ event, subject, seq, attempt, text }: Delivery): ReceivedMessage {
  const common = { subject, streamSeq: seq, deliveries: attempt }
  if (!event) {
    const problem = 'Not a CloudEvent'
    const stored = storedText(text())
    return { ...common, messageId: idOf(subject, seq, text()), aggregateId: null, stored, event: undefined, problem }
  }
  const messageId = parseId('message', event.id) ?? idOf(subject, seq, event.id)
  return { ...common, messageId, ...read(event) }
}

/** A parked message, read again: this version may know more than the one that parked it. */
export function readParked(stored: unknown): Pick<ReceivedMessage, 'event' | 'problem'> {
  const { data } = CloudEvent.safeParse(stored)
  return data ? read(data) : { event: undefined, problem: 'Not a CloudEvent' }
}

function read(event: CloudEvent): Pick<ReceivedMessage, 'aggregateId' | 'stored' | 'event' | 'problem'> {
  const aggregateId = parseId('message', event.subject.split('/')[1] ?? '') ?? null
  const json = JSON.stringify(event)
  // jsonb takes neither NUL nor half of a surrogate pair, which no event of ours can have.
  const stored = /\\u(0000|d[89a-f])/i.test(json) ? storedText(json) : json
  try {
    return { aggregateId, stored, event: receivedEvent(event), problem: undefined }
  } catch (error) {
    return { aggregateId, stored, event: undefined, problem: NOT_READABLE + safeMessage(error) }
  }
}

const storedText = (text: string) =>
  JSON.stringify(text.slice(0, MAX_TEXT).toWellFormed().replaceAll('\0', '').replaceAll('\\u', '\\\\u'))

/** The same for every delivery of a message that has no id of ours. */
function idOf(subject: string, seq: number, text: string): Uuid {
  const hash = createHash('sha256').update(`${subject}\n${seq}\n${text}`).digest('hex')
  return `${hash.slice(0, 8)}-${hash.slice(8, 12)}-8${hash.slice(13, 16)}-8${hash.slice(17, 20)}-${hash.slice(20, 32)}`
}
