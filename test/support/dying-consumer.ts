import { openNatsBus } from '../../lib/runtime/event-bus/nats.ts'
import { quietLog } from './quiet-log.ts'

/** A consumer that dies without warning while it handles one event: `url ack-wait-ms consumer event-id`. */
const [url = '', ackWaitMs = '', consumer = '', id = ''] = process.argv.slice(2)
const bus = openNatsBus({ url, ackWaitMs: Number(ackWaitMs), log: quietLog() })
await bus.subscribe({ consumer, types: ['MediaUploaded'] }, async (batch) => {
  if (batch.some(({ event }) => event?.id === id)) process.kill(process.pid, 'SIGKILL')
})
