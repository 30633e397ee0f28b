import { connect } from 'nats'
import { CloudEvent, STREAM } from '../../../lib/contract/events.ts'

/** Every event that the stream holds, in order. */
export async function eventsIn(natsUrl: string): Promise<CloudEvent[]> {
  const connection = await connect({ servers: natsUrl })
  try {
    const { state } = await (await connection.jetstreamManager()).streams.info(STREAM)
    if (state.messages === 0) return []
    const consumer = await connection.jetstream().consumers.get(STREAM)
    const messages = await consumer.fetch({ max_messages: state.messages, expires: 5000 })
    const events: CloudEvent[] = []
    for await (const message of messages) events.push(CloudEvent.parse(message.json()))
    return events
  } finally {
    await connection.close()
  }
}
