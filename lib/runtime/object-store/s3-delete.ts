import type { Log } from '../log.ts'
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
  log?: Pick<Log, 'warn'> | undefined
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

/** How often something is deleted that is still listed. */
const ATTEMPTS = 3

interface ListedUpload {
  key: string
  /** How often it was listed. */
  times: number
  /** False if the server answered each time that there is no such upload. */
  existed: boolean
}

/** How a bucket is emptied: every version, delete marker and upload, looked for again until nothing is found. */
export function s3Deletion({ client, wire, bucket, again, log, sign }: Deleting) {
  /** Returns false if there is no such upload. */
  const abort = (key: string, uploadId: string): Promise<boolean> =>
    again(() => client.abortMultipartUpload(bucket, key, uploadId)).then(
      () => true,
      (error: unknown) => {
        if (error instanceof StoreError && error.code === 'NotFound') return false
        throw error
      },
    )

  /** In order of keys. */
  async function* uploadsBelow(prefix: string) {
    let [key, id] = ['', '']
    do {
      const page = await again(() => client.listIncompleteUploadsQuery(bucket, prefix, key, id, ''))
      yield* page.uploads
      ;[key, id] = page.isTruncated ? [page.nextKeyMarker, page.nextUploadIdMarker] : ['', '']
    } while (key !== '')
  }

  async function abortUploads(prefix: string, isMeant: (key: string) => boolean = () => true): Promise<number> {
    const known = new Map<string, ListedUpload>()
    let isOver = false
    while (!isOver) isOver = !(await abortListed(prefix, isMeant, known))
    const listed = [...known.values()]
    tellOfLeft(listed.filter(({ times }) => times > ATTEMPTS))
    return listed.filter(({ existed }) => existed).length
  }

  /** Returns whether there was an upload to abort, so that the list has to be looked at again. */
  async function abortListed(prefix: string, isMeant: (key: string) => boolean, known: Map<string, ListedUpload>) {
    let isAny = false
    for await (const { key, uploadId } of uploadsBelow(prefix)) {
      if (!isMeant(key)) break
      const { times = 0, existed = false } = known.get(uploadId) ?? {}
      const isDue = times < ATTEMPTS
      const isAborted = isDue && (await abort(key, uploadId))
      known.set(uploadId, { key, times: times + 1, existed: existed || isAborted })
      isAny ||= isDue
    }
    return isAny
  }

  /**
   * Ceph may list uploads that it does not have. They cannot be completed, so they hold up no purge; only an administrator
   * of the store can remove them from the list.
   */
  function tellOfLeft(left: readonly ListedUpload[]): void {
    const kept = left.find(({ existed }) => existed)
    if (kept) throw new StoreError('Unavailable', `The object store still lists an aborted upload of ${kept.key}`)
    if (left[0]) log?.warn({ key: left[0].key, uploads: left.length }, 'the object store lists uploads that it lacks')
  }

  /** A bucket without versions lists each object as its only version, `null`. */
  async function deleteVersions(prefix: string, isMeant: (key: string) => boolean = () => true): Promise<number> {
    let [count, times, last] = [0, 0, '']
    for (;;) {
      const versions = (await again(() => client.versions(bucket, prefix))).filter(({ name }) => isMeant(name))
      if (versions.length === 0) return count
      const page = JSON.stringify(versions)
      times = page === last ? times + 1 : 1
      if (times > ATTEMPTS)
        throw new StoreError('Unavailable', `The object store still lists ${versions[0]?.name}, which it deleted`)
      await removeVersions(versions)
      last = page
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
