import { rm } from 'node:fs/promises'
import * as z from 'zod'
import { StoreGrant } from '../../lib/contract/store-proxy.ts'
import { ConfigError, JobLogConfig, json, loadConfig } from '../../lib/runtime/config.ts'
import { lifecycle } from '../../lib/runtime/lifecycle.ts'
import { openLog } from '../../lib/runtime/log.ts'
import { type ObjectStore, StoreError } from '../../lib/runtime/object-store/object-store.ts'
import { openObjectStore, StoreConfig } from '../../lib/runtime/object-store/open.ts'
import { socketAddress } from '../../lib/runtime/unix-socket.ts'
import { startStoreProxy } from './server.ts'

/**
 * The sidecar of a Job: it alone holds the object store's credentials, and serves what STORE_GRANT names at the socket
 * STORE_SOCKET. The kubelet ends it after the container that converts.
 */
const log = openLog({ program: 'store-proxy', level: loadConfig(JobLogConfig).LOG_LEVEL })
const { STORE_GRANT, STORE_SOCKET } = loadConfig(
  z.object({ STORE_GRANT: json(StoreGrant), STORE_SOCKET: z.string().min(1) }),
)
const life = lifecycle(log, { deadlineMs: 5000, signals: true, exit: true })

/** The wrong settings of a store are the result of every request, so that the Job reports them in its own status. */
async function openStore(): Promise<ObjectStore | StoreError> {
  try {
    const store = await openObjectStore(loadConfig(StoreConfig), log)
    life.onStop('object store', () => store.close())
    return store
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    log.error({ err: error }, 'cannot open the store')
    return new StoreError('BadConfiguration', error.message)
  }
}

const store = await openStore()
// A killed predecessor leaves its socket. Only this container can write to the folder.
await rm(STORE_SOCKET, { force: true })
// Connecting needs the right to write. The folder's group, which both containers are in, becomes that of the socket.
const before = process.umask(0o117)
const proxy = await startStoreProxy({ address: socketAddress(STORE_SOCKET), grant: STORE_GRANT, store, log })
// Put back before the first request: without the right to search it, this user cannot use a folder that the store makes.
process.umask(before)
life.onStop('store proxy', () => proxy.close())
log.debug({ socket: STORE_SOCKET }, 'ready')
