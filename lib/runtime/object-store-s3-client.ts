import { Client } from 'minio'
import type { Connections } from './object-store-s3-http.ts'

export interface S3Options {
  endpoint: string
  /** Where clients reach the same bucket, when that differs; for presigned links. */
  publicEndpoint?: string | undefined
  region: string
  bucket: string
  accessKey: string
  secretKey: string
  /** PEM: whose certificates are accepted besides those that everybody accepts. */
  ca?: string | undefined
  /** Folder for parts of bodies of unknown length, one of 8 MiB for each body; the system's temporary one unless said. */
  scratch?: string
  /** How long a connection may be silent. */
  idleMs?: number
}

/** listParts is only hidden by its type. */
class Door extends Client {
  parts(bucket: string, key: string, uploadId: string) {
    return this.listParts(bucket, key, uploadId)
  }
}

/** The client that signs and does what is small; the bytes go through `connections`. */
export function connect(options: S3Options, endpoint: string, connections: Connections) {
  const url = new URL(endpoint)
  const useSSL = url.protocol === 'https:'
  return new Door({
    endPoint: url.hostname,
    port: Number(url.port) || (useSSL ? 443 : 80),
    useSSL,
    accessKey: options.accessKey,
    secretKey: options.secretKey,
    // Named, so that the client never asks where the bucket is.
    region: options.region,
    pathStyle: true,
    transport: connections.transport,
    transportAgent: connections.agent,
    // Its retries write to the console and lose the error code; the ones here do not.
    retryOptions: { disableRetry: true },
  })
}
