import { STREAM } from '../../contract/events.ts'
import type { Wire } from './nats-consumer.ts'
import { jsErrorCode } from './nats-streams.ts'

const AT_ONCE = 500
const WAIT_MS = 5_000
const NO_MESSAGE = 10037

/**
 * Reads the stream from its beginning and removes messages one by one: a subject is one aggregate's, whose events name
 * several people. Safe to repeat.
 */
export async function eraseMessages(
  { js, jsm, lost }: Wire,
  isTheirs: (text: string) => boolean,
  signal?: AbortSignal,
): Promise<number> {
  const { state } = await jsm.streams.info(STREAM)
  if (state.messages === 0) return 0
  const consumer = await js.consumers.get(STREAM)
  let erased = 0
  try {
    for (let seen = state.first_seq - 1; seen < state.last_seq; ) {
      signal?.throwIfAborted()
      if (lost.aborted) throw new Error('The connection to the event server is lost')
      const before = seen
      const batch = await consumer.fetch({ max_messages: AT_ONCE, expires: WAIT_MS })
      for await (const message of batch) {
        seen = message.seq
        if (isTheirs(message.string())) erased += await removed(jsm, message.seq)
        if (seen >= state.last_seq) break
      }
      // Those behind it were removed meanwhile.
      if (seen === before) return erased
    }
    return erased
  } finally {
    await consumer.delete().catch(() => false)
  }
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
