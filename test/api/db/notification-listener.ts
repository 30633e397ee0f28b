import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { listenForNotifications } from '../../../api/db/notification-listener.ts'
import { overTcp, testDatabase } from '../../support/database.ts'
import { eventually } from '../../support/eventually.ts'
import { readableLog } from '../../support/readable-log.ts'
import { swallowingProxy } from '../../support/swallowing-proxy.ts'

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

t.test('connects anew when the server has vanished without a word', async (t) => {
  const { log, logged } = readableLog()
  const url = overTcp(database.url)
  const proxy = await swallowingProxy(url)
  url.port = String(proxy.port)
  let calls = 0
  const onNotify = () => void calls++
  const listener = listenForNotifications({ url: url.href, channels: { access: onNotify }, log, patienceMs: 400 })
  t.teardown(async () => {
    await listener.close()
    await proxy.close()
  })
  await eventually('a connection', () => calls > 0)
  proxy.swallow()
  await eventually('another connection', () => calls > 1)
  t.ok(logged.some(({ msg }) => msg === 'the connection for notifications does not answer'))
  const before = calls
  await database.admin.query('notify access')
  await eventually('a notification on it', () => calls > before)
})
