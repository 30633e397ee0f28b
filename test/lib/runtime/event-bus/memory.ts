import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openMemoryBus } from '../../../../lib/runtime/event-bus/memory.ts'
import { eventBusContract, sample } from '../../../support/event-bus-contract.ts'
import { quietLog } from '../../../support/quiet-log.ts'

const open = () => openMemoryBus({ log: quietLog() })
eventBusContract(t, open)

t.test('publish resolves only when every consumer has handled the event', async (t) => {
  const bus = open()
  let handled = 0
  for (const consumer of ['quick', 'slow']) {
    await bus.subscribe({ consumer, types: ['MediaUploaded'] }, async () => {
      await sleep(consumer === 'slow' ? 100 : 1)
      handled++
    })
  }
  const { subject, event } = sample()
  await bus.publish(subject, event)
  t.equal(handled, 2)
})

t.test('publish rejects while a consumer fails, so that the outbox keeps the event', async (t) => {
  const bus = open()
  let ok = false
  await bus.subscribe({ consumer: 'c', types: ['MediaUploaded'] }, async () => {
    if (!ok) throw new Error('database away')
  })
  const { subject, event } = sample()
  await t.rejects(bus.publish(subject, event), { errors: [{ message: 'database away' }] })
  ok = true
  await t.resolves(bus.publish(subject, event))
})

t.test('publishing what nobody wants is success', async (t) => {
  const { subject, event } = sample()
  await t.resolves(open().publish(subject, event))
})
