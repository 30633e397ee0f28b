import { AckPolicy, type Consumer, DeliverPolicy, type JsMsg, nanos } from 'nats'
import { STREAM } from '../../contract/events.ts'
import type { IsTheirs } from './event-bus.ts'
import type { Wire } from './nats-consumer.ts'
import { jsErrorCode } from './nats-streams.ts'

const AT_ONCE = 500
const WAIT_MS = 5_000
const NO_MESSAGE = 10037

/**
 * Reads the stream from its beginning and removes messages one by one: a subject is one aggregate's, whose events name
 * several people. Safe to repeat. Throws unless it has seen every message: the client does not tell of messages that are
 * late, or that it has dropped at the end of a request, so the server counts what was acknowledged.
 */
export async function eraseMessages(
  { js, jsm, lost }: Wire,
  isTheirs: IsTheirs,
  { signal, waitMs = WAIT_MS }: { signal?: AbortSignal | undefined; waitMs?: number } = {},
): Promise<number> {
  const { state } = await jsm.streams.info(STREAM)
  if (state.messages === 0) return 0
  const { name } = await jsm.consumers.add(STREAM, READER)
  try {
    const reader = await js.consumers.get(STREAM, name)
    let erased = 0
    for (let seen = 0; seen < state.last_seq; ) {
      signal?.throwIfAborted()
      if (lost.aborted) throw new Error('The connection to the event server is lost')
      const messages = await nextOf(reader, state.last_seq, waitMs)
      // Those behind it were removed meanwhile, or have not arrived.
      if (messages.length === 0) break
      for (const message of messages) {
        if (isTheirs({ subject: message.subject, text: message.string() })) erased += await removed(jsm, message.seq)
        seen = Math.max(seen, message.seq)
      }
    }
    const { num_pending: unsent, num_ack_pending: unseen, ack_floor: floor } = await reader.info()
    const isWhole = floor.stream_seq >= state.last_seq || unsent + unseen === 0
    if (!isWhole) throw new Error('The stream of events was not read to its end')
    return erased
  } finally {
    await jsm.consumers.delete(STREAM, name).catch(() => false)
  }
}

/** Ends by itself where its program has died. */
const READER = {
  ...{ ack_policy: AckPolicy.Explicit, deliver_policy: DeliverPolicy.All, ack_wait: nanos(600_000) },
  ...{ mem_storage: true, num_replicas: 1, inactive_threshold: nanos(300_000) },
}

/** The next messages, acknowledged; none where none arrives in time. */
async function nextOf(reader: Consumer, last: number, waitMs: number): Promise<JsMsg[]> {
  const batch = await reader.fetch({ max_messages: AT_ONCE, expires: waitMs })
  const messages: JsMsg[] = []
  for await (const message of batch) {
    messages.push(message)
    if (message.seq >= last) break
  }
  for (const message of messages.slice(0, -1)) message.ack()
  // The server takes them in order.
  await messages.at(-1)?.ackAck()
  return messages
}

/** 0 for a message that another one has removed. */
async function removed(jsm: Wire['jsm'], seq: number): Promise<number> {
  try {
    // With `erase` the server overwrites it.
    return (await jsm.streams.deleteMessage(STREAM, seq, true)) ? 1 : 0
  } catch (error) {
    if (jsErrorCode(error) === NO_MESSAGE || jsErrorCode(error) === NOT_DELETED) return 0
    throw error
  }
}
/** "message delete failed": also for one that is not there. */
const NOT_DELETED = 10057
