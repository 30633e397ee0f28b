import { openNatsBus } from '../../lib/runtime/event-bus/nats.ts'
import { quietLog } from './quiet-log.ts'

/** A consumer that dies without warning while it handles one event: `url consumer event-id max-deliver`. */
const [url = '', consumer = '', id = '', maxDeliver = ''] = process.argv.slice(2)
const bus = openNatsBus({ url, ackWaitMs: 200, log: quietLog() })
await bus.subscribe({ consumer, types: ['MediaUploaded'], maxDeliver: Number(maxDeliver) }, async ({ event }) => {
  if (event.id === id) process.kill(process.pid, 'SIGKILL')
})
