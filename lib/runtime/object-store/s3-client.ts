import { text } from 'node:stream/consumers'
import { Client } from 'minio'
import { presignSignatureV4 } from 'minio/dist/esm/signing.mjs'
import type { Log } from '../log.ts'
import type { Connections, Transport } from './http.ts'
import { S3Refusal } from './s3-http.ts'

export interface S3Options {
  endpoint: string
  /** The endpoint for clients, for presigned links, when it differs. */
  publicEndpoint?: string | undefined
  region: string
  bucket: string
  accessKey: string
  secretKey: string
  /** CA certificates in PEM that are trusted in addition to the public ones. */
  ca?: string | undefined
  /** Folder that buffers one part of 8 MiB for each body of unknown length; by default the temporary folder. */
  scratch?: string
  /** Milliseconds without traffic after which a connection is closed. */
  idleMs?: number
  /** The storage class of what lies at a cold key. */
  coldClass?: string | undefined
  /** Where a key lies that is copied, if not in this bucket. */
  bucketOf?: (key: string) => string
  /** Bytes above which an object is copied in parts of this size. */
  copyPartBytes?: number
  log?: Pick<Log, 'warn'> | undefined
}

/** A version of an object, or a delete marker. */
export interface Version {
  name: string
  versionId?: string
}

/** A request that `presign` signs. */
interface Signed {
  method: string
  bucket: string
  key: string
  query?: Record<string, string> | undefined
  headers: Record<string, string>
  seconds: number
}

/** Exposes listParts, which the client has but its type declares as protected, and the ids of versions. */
class ClientWithParts extends Client {
  parts(bucket: string, key: string, uploadId: string) {
    return this.listParts(bucket, key, uploadId)
  }

  /**
   * CopyObject, or with `query` UploadPartCopy; both sign all of their headers. The client's own `copyObject` and
   * `composeObject` are not used: the first sends no class, the second loses half of a large object without an error.
   */
  async copyFrom(bucket: string, key: string, headers: Record<string, string>, query?: string): Promise<string> {
    const request = { method: 'PUT', bucketName: bucket, objectName: key, headers, ...(query && { query }) }
    const xml = await text(await this.makeRequestAsync(request))
    // A copy that failed after it began is answered with 200 and an error in the body.
    const etag = /<ETag>(?:&quot;|")?([^<&"]+)/.exec(xml)?.[1]
    if (!etag) throw new S3Refusal(/<Code>([^<]{1,100})</.exec(xml)?.[1] ?? 'InternalError', 'The copy failed')
    return `"${etag}"`
  }

  /**
   * A URL for a request with these headers. `presignedUrl` signs none: Ceph honors them all the same, Amazon refuses
   * `x-amz-` headers that are not signed.
   */
  presign({ method, bucket, key, query = {}, headers, seconds }: Signed): string {
    const region = this.region ?? ''
    const named = { bucketName: bucket, objectName: key, query: new URLSearchParams(query).toString() }
    const request = this.getRequestOptions({ method, region, ...named, headers })
    return presignSignatureV4(request, this.accessKey, this.secretKey, undefined, region, new Date(), seconds)
  }

  /** The first page of all versions and delete markers below a prefix. */
  async versions(bucket: string, prefix: string): Promise<Version[]> {
    const page = { Delimiter: '', MaxKeys: 1000, IncludeVersion: true }
    const { objects } = await this.listObjectsQuery(bucket, prefix, '', page)
    // The declared type lacks versionId.
    return objects.flatMap(({ name, versionId }: (typeof objects)[number] & { versionId?: string }) =>
      name === undefined ? [] : [{ name, ...(versionId !== undefined && { versionId }) }],
    )
  }
}

/** The client that signs URLs and makes small calls; object bytes go through `connections`. */
export function connect(
  options: S3Options,
  endpoint: string,
  { agent, transport }: Pick<Connections, 'agent'> & { transport: Transport },
) {
  const url = new URL(endpoint)
  const useSSL = url.protocol === 'https:'
  return new ClientWithParts({
    endPoint: url.hostname,
    port: Number(url.port) || (useSSL ? 443 : 80),
    useSSL,
    accessKey: options.accessKey,
    secretKey: options.secretKey,
    // Set explicitly, so that the client never requests the bucket's location.
    region: options.region,
    pathStyle: true,
    transport,
    transportAgent: agent,
    // The client's retries write to the console and lose the error code; `again` in s3.ts retries instead.
    retryOptions: { disableRetry: true },
  })
}
