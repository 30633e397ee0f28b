import { checkFolderPrefix, checkKey } from './key.ts'
import { StoreError } from './object-store.ts'
import type { Again } from './retry.ts'
import type { connect, Version } from './s3-client.ts'
import type { openS3Connections } from './s3-http.ts'

interface Deleting {
  client: ReturnType<typeof connect>
  wire: ReturnType<typeof openS3Connections>
  bucket: string
  again: Again
  /** Makes the URL of a request. */
  sign(method: string, key: string, query: Record<string, string>): Promise<string>
}

/** An item of a multi-delete that was refused. A lock is no more than `AccessDenied` here, as a missing right is. */
interface Refused {
  Key?: unknown
  VersionId?: unknown
  Code?: unknown
}

/** When the lock of a version ends; `never` is said for a legal hold. */
type Lock = Date | 'never'

/** How a bucket is emptied: every version, delete marker and upload, looked for again until nothing is found. */
export function s3Deletion({ client, wire, bucket, again, sign }: Deleting) {
  const abort = (key: string, uploadId: string) =>
    again(() => client.abortMultipartUpload(bucket, key, uploadId)).catch((error: unknown) => {
      if (!(error instanceof StoreError && error.code === 'NotFound')) throw error
    })

  async function abortUploads(prefix: string, isMeant: (key: string) => boolean = () => true): Promise<number> {
    for (let count = 0; ; ) {
      // Always the first page: its uploads are aborted before the next request.
      const page = await again(() => client.listIncompleteUploadsQuery(bucket, prefix, '', '', ''))
      const uploads = page.uploads.filter(({ key }) => isMeant(key))
      if (uploads.length === 0) return count
      for (const { key, uploadId } of uploads) await abort(key, uploadId)
      count += uploads.length
    }
  }

  /** A bucket without versions lists each object as its only version, `null`. */
  async function deleteVersions(prefix: string, isMeant: (key: string) => boolean = () => true): Promise<number> {
    for (let count = 0; ; ) {
      const versions = (await again(() => client.versions(bucket, prefix))).filter(({ name }) => isMeant(name))
      if (versions.length === 0) return count
      await removeVersions(versions)
      count += versions.length
    }
  }

  async function removeVersions(versions: readonly Version[]): Promise<void> {
    // Never with `x-amz-bypass-governance-retention`: that a purge is due does not end a lock.
    const refused = (await again(() => client.removeObjects(bucket, [...versions]))) as Refused[]
    if (refused.length > 0) throw await refusalOf(refused)
  }

  async function refusalOf(refused: readonly Refused[]): Promise<StoreError> {
    const locks: Lock[] = []
    for (const item of refused) {
      const lock = await lockOf(item).catch(() => undefined)
      if (lock !== undefined) locks.push(lock)
    }
    const name = `${refused[0]?.Key}${refused.length === 1 ? '' : ` and ${refused.length - 1} more`}`
    if (locks.length === 0) {
      return new StoreError('Unavailable', `The object store answered ${refused[0]?.Code}. It did not delete ${name}`)
    }
    const ends = locks.flatMap((lock) => (lock === 'never' ? [] : [lock.getTime()]))
    // All of them have to end.
    const until = ends.length === locks.length ? new Date(Math.max(...ends)) : undefined
    const end = until ? `until ${until.toISOString()}` : 'by a legal hold'
    return new StoreError('Locked', `The bucket locks ${name} ${end}`, { until })
  }

  /** Undefined for a version that is not locked, or no longer. Throws for a delete marker, which cannot be. */
  async function lockOf({ Key: key, VersionId: versionId }: Refused): Promise<Lock | undefined> {
    const query = versionId === undefined ? {} : { versionId: String(versionId) }
    const answer = await again(async () => wire.exchange(await sign('HEAD', String(key), query), { method: 'HEAD' }))
    answer.resume()
    if (answer.headers['x-amz-object-lock-legal-hold'] === 'ON') return 'never'
    const until = new Date(String(answer.headers['x-amz-object-lock-retain-until-date']))
    return until.getTime() > Date.now() ? until : undefined
  }

  return {
    abort,
    /** Lists are in key order, so what belongs to keys that only begin with this one comes after its own. */
    abortUploadsOf: (key: string) => abortUploads(key, (found) => found === key),
    async deletePrefix(prefix: string): Promise<number> {
      checkFolderPrefix(prefix)
      // Uploads first: one that completes meanwhile leaves an object, which the second step finds.
      return (await abortUploads(prefix)) + (await deleteVersions(prefix))
    },
    async deleteForGood(key: string): Promise<void> {
      checkKey(key)
      const isMeant = (found: string) => found === key
      await abortUploads(key, isMeant)
      await deleteVersions(key, isMeant)
    },
  }
}
