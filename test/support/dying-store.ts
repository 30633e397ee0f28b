import { Readable } from 'node:stream'
import { armFailpoint } from '../../lib/runtime/failpoint.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { moveToCold } from '../../lib/runtime/object-store/move-to-cold.ts'

/** One operation on a folder store in a process that does not survive it: `folder operation failpoint`. */
const [folder = '', operation = '', failpoint] = process.argv.slice(2)
const [what, id = '', etag = ''] = operation.split(':')
const key = 'org/x'
armFailpoint(failpoint)
const store = openFolderStore({ folder })

// Who is to be killed in the middle must not be done before: every turn of the event loop takes its time.
const clock = new Int32Array(new SharedArrayBuffer(4))
const brake = failpoint ? undefined : setInterval(() => void Atomics.wait(clock, 0, 0, 50))

/** With a failpoint a short body; without one a body without end, in the middle of which we are killed. */
async function* body() {
  for (let i = 0; failpoint ? i < 4 : true; i++) yield Buffer.alloc(100_000, i)
}
if (what === 'put') await store.put(key, Readable.from(body()), { contentType: 'video/mp4' })
if (what === 'part') await store.putPart(key, id, 1, Readable.from(body()), { size: 400_000 })
if (what === 'complete') await store.completeMultipart(key, id, [{ partNumber: 1, etag }])
if (what === 'move') {
  await moveToCold(store, key)
  // The caller has switched its row by now.
  await store.deleteForGood(key)
}
clearInterval(brake)
