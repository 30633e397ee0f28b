import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startStoreProxy } from '../../../jobs/store-proxy/server.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'
import { openProxyStore } from '../../../lib/runtime/object-store/proxy.ts'
import { eventually } from '../../support/eventually.ts'
import { quietLog } from '../../support/quiet-log.ts'

t.test('a list that its reader leaves early ends in the store too, at once', async (t) => {
  // A socket's path has at most 107 bytes.
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-proxy-'))
  const behind = openFolderStore({ folder: join(folder, 'objects') })
  let ended = false
  async function* endless() {
    try {
      for (let k = 0; ; k++) {
        yield { key: `pieces/${k}`, size: 1, etag: '"a"', lastModified: new Date(), contentType: 'text/plain' }
      }
    } finally {
      ended = true
    }
  }
  const proxy = await startStoreProxy({
    address: join(folder, 'socket'),
    grant: { read: [], write: ['pieces/'], remove: [] },
    store: { ...behind, list: endless },
    log: quietLog(),
  })
  const client = openProxyStore({ socket: join(folder, 'socket') })
  t.teardown(async () => {
    await client.close()
    await proxy.close()
    await behind.close()
    await rm(folder, { recursive: true, force: true })
  })
  for await (const { key } of client.list('pieces/')) {
    t.equal(key, 'pieces/0')
    break
  }
  // The limit for a reader that does not read on is a minute.
  await eventually('the end of the list', () => ended, 20_000)
})
