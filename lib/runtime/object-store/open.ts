import { X509Certificate } from 'node:crypto'
import { tmpdir } from 'node:os'
import * as z from 'zod'
import { openFolderStore } from './folder.ts'
import type { ObjectStore } from './object-store.ts'
import { openProxyStore } from './proxy.ts'

const PEM = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g

function areCertificates(text: string): boolean {
  try {
    return (text.match(PEM) ?? []).map((pem) => new X509Certificate(pem)).length > 0
  } catch {
    return false
  }
}

const Fields = z.object({
  /** `proxy`: the part of a store that a Job's store proxy grants; it needs no credential. */
  STORE_KIND: z.enum(['folder', 's3', 'proxy']),
  STORE_FOLDER: z.string().min(1).optional(),
  /** The Unix socket of the store proxy. */
  STORE_SOCKET: z.string().min(1).optional(),
  S3_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  /** The endpoint for clients, when it differs from S3_ENDPOINT. */
  S3_PUBLIC_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  S3_REGION: z.string().min(1).default('us-east-1'),
  S3_BUCKET: z.string().min(3).max(63).optional(),
  S3_ACCESS_KEY: z.string().min(1).optional(),
  S3_SECRET_KEY: z.string().min(1).optional(),
  /** CA certificates in PEM that are trusted for the store in addition to the public ones. */
  S3_CA: z.string().refine(areCertificates, 'is not a certificate in PEM').optional(),
  /** Folder that buffers parts of uploads to S3: up to 8 MiB for each body of unknown length. */
  SCRATCH_FOLDER: z.string().min(1).default(tmpdir()),
})
type Fields = z.output<typeof Fields>

const needed = {
  folder: ['STORE_FOLDER'],
  proxy: ['STORE_SOCKET'],
  s3: ['S3_ENDPOINT', 'S3_BUCKET', 'S3_ACCESS_KEY', 'S3_SECRET_KEY'],
} as const

/** Programs `extend` this with their own variables; copying `.shape` would lose the check across fields. */
export const StoreConfig = Fields.superRefine((config, ctx) => {
  for (const field of needed[config.STORE_KIND]) {
    if (config[field] !== undefined) continue
    ctx.addIssue({ code: 'custom', path: [field], message: `is needed when STORE_KIND is ${config.STORE_KIND}` })
  }
})

/** Opens the store that the configuration names. Does not contact it yet: see `check`. */
export async function openObjectStore(config: Fields): Promise<ObjectStore> {
  const need = (field: (typeof needed)[keyof typeof needed][number]): string => {
    const value = config[field]
    if (value === undefined) throw new Error(`Bad configuration: ${field} is needed for ${config.STORE_KIND}`)
    return value
  }
  if (config.STORE_KIND === 'folder') return openFolderStore({ folder: need('STORE_FOLDER') })
  if (config.STORE_KIND === 'proxy') return openProxyStore({ socket: need('STORE_SOCKET') })
  // The client of S3 takes 0.15 s of CPU to load, and the programs of Jobs, which use a proxy, need none.
  const { openS3Store } = await import('./s3.ts')
  return openS3Store({
    endpoint: need('S3_ENDPOINT'),
    publicEndpoint: config.S3_PUBLIC_ENDPOINT,
    region: config.S3_REGION,
    bucket: need('S3_BUCKET'),
    accessKey: need('S3_ACCESS_KEY'),
    secretKey: need('S3_SECRET_KEY'),
    ca: config.S3_CA,
    scratch: config.SCRATCH_FOLDER,
  })
}
