import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { startStoreProxy } from '../../../../jobs/store-proxy/server.ts'
import { outputType } from '../../../../lib/contract/output-types.ts'
import { openFolderStore } from '../../../../lib/runtime/object-store/folder.ts'
import { openProxyStore } from '../../../../lib/runtime/object-store/proxy.ts'
import { objectStoreContract } from '../../../support/object-store-contract.ts'
import { quietLog } from '../../../support/quiet-log.ts'

/** The store of Jobs: a client of the proxy, in front of a store in a folder. */

const folder = await mkdtemp(join(tmpdir(), 'keepsake-proxy-store-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const socket = join(folder, 'socket')
// The contract works below these prefixes.
const write = Array.from({ length: 64 }, (_, n) => `t${n}/`)
const behind = openFolderStore({ folder: join(folder, 'store') })
const proxy = await startStoreProxy({
  address: socket,
  grant: { read: [], write, remove: [] },
  store: behind,
  log: quietLog(),
})
const store = openProxyStore({ socket })
t.teardown(async () => {
  await store.close()
  await proxy.close()
  await behind.close()
})

// A Job does not choose the types of its outputs. A list of them has no pages.
objectStoreContract(t, store, { typeOf: outputType, objects: 310 })
