import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { listenForNotifications } from '../../../api/db/notification-listener.ts'
import { testDatabase } from '../../support/database.ts'
import { readableLog } from '../../support/readable-log.ts'

const database = await testDatabase(t)

t.test('closes at any moment, also while it connects', async (t) => {
  const { log, logged } = readableLog()
  for (let turns = 0; turns < 20; turns++) {
    const listener = listenForNotifications({ url: database.url, channels: { access: () => {} }, log })
    for (let n = 0; n < turns; n++) await turn()
    await listener.close()
    t.pass(`after ${turns} turns of the event loop`)
  }
  t.strictSame(logged, [], 'no failure')
})
