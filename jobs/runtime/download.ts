import { EXIT } from '../../lib/contract/job-result.ts'
import { sizeText } from '../../lib/contract/size.ts'
import { type ObjectInfo, type ObjectStore, StoreError } from '../../lib/runtime/object-store/object-store.ts'
import { badInput, PermanentError } from './failure.ts'

/** Copies an upload to a file and says what it was. Throws a PermanentError when it is gone or too large. */
export async function download(
  store: ObjectStore,
  key: string,
  path: string,
  { maxBytes, signal }: { maxBytes: number; signal: AbortSignal },
): Promise<ObjectInfo> {
  const missing = async (cause?: unknown) => {
    // A missing bucket answers the same as a missing object. `check` throws for it: an administrator can fix that.
    await store.check()
    return new PermanentError(EXIT.inputMissing, 'InputMissing', 'The uploaded file no longer exists', { cause })
  }
  const info = await store.head(key)
  if (!info) throw await missing()
  if (info.size > maxBytes) {
    throw badInput('LimitExceeded', `The file is larger than ${sizeText(maxBytes)}`)
  }
  try {
    return await store.download(key, path, signal)
  } catch (error) {
    if (error instanceof StoreError && error.code === 'NotFound') throw await missing(error)
    throw error
  }
}
