import { X509Certificate } from 'node:crypto'
import { tmpdir } from 'node:os'
import * as z from 'zod'
import { isColdKey } from '../../contract/cold-key.ts'
import type { Log } from '../log.ts'
import { openFolderStore } from './folder.ts'
import type { ObjectStore } from './object-store.ts'
import { openProxyStore } from './proxy.ts'
import { openTieredStore } from './tiered.ts'

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
  /** A second folder, for what policies move to the cold tier. */
  STORE_COLD_FOLDER: z.string().min(1).optional(),
  /** The Unix socket of the store proxy. */
  STORE_SOCKET: z.string().min(1).optional(),
  S3_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  /** The endpoint for clients, when it differs from S3_ENDPOINT. */
  S3_PUBLIC_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  S3_REGION: z.string().min(1).default('us-east-1'),
  S3_BUCKET: z.string().min(3).max(63).optional(),
  /** The bucket of the cold tier, if it is not S3_BUCKET. */
  S3_COLD_BUCKET: z.string().min(3).max(63).optional(),
  /** The storage class of the cold tier. Its objects must be readable at once, as with GLACIER_IR or STANDARD_IA. */
  S3_COLD_CLASS: z
    .string()
    .regex(/^[A-Z0-9_-]{1,64}$/)
    .refine((name) => !['GLACIER', 'DEEP_ARCHIVE'].includes(name), 'cannot be read at once')
    .optional(),
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

const DISTINCT = [
  ['S3_COLD_BUCKET', 'S3_BUCKET'],
  ['STORE_COLD_FOLDER', 'STORE_FOLDER'],
] as const

/** Programs `extend` this with their own variables; copying `.shape` would lose the check across fields. */
export const StoreConfig = Fields.superRefine((config, ctx) => {
  for (const field of needed[config.STORE_KIND]) {
    if (config[field] !== undefined) continue
    ctx.addIssue({ code: 'custom', path: [field], message: `is needed when STORE_KIND is ${config.STORE_KIND}` })
  }
  // Each object would be listed twice, and the second deletion of a prefix would find it empty.
  for (const [field, other] of DISTINCT) {
    if (config[field] === undefined || config[field] !== config[other]) continue
    ctx.addIssue({ code: 'custom', path: [field], message: `must not be ${other}: leave it out` })
  }
})

/** Opens the store that the configuration names. Does not contact it yet: see `check`. */
export async function openObjectStore(config: Fields, log?: Pick<Log, 'warn'>): Promise<ObjectStore> {
  const need = (field: (typeof needed)[keyof typeof needed][number]): string => {
    const value = config[field]
    if (value === undefined) throw new Error(`Bad configuration: ${field} is needed for ${config.STORE_KIND}`)
    return value
  }
  if (config.STORE_KIND === 'folder') return openFolders(need('STORE_FOLDER'), config.STORE_COLD_FOLDER)
  if (config.STORE_KIND === 'proxy') return openProxyStore({ socket: need('STORE_SOCKET') })
  // The client of S3 takes 0.15 s of CPU to load, and the programs of Jobs, which use a proxy, need none.
  const { openS3Store } = await import('./s3.ts')
  const [bucket, coldBucket] = [need('S3_BUCKET'), config.S3_COLD_BUCKET]
  const open = (place: string) =>
    openS3Store({
      ...s3,
      bucket: place,
      ...(coldBucket !== undefined && { bucketOf: (key: string) => (isColdKey(key) ? coldBucket : bucket) }),
    })
  const s3 = {
    endpoint: need('S3_ENDPOINT'),
    publicEndpoint: config.S3_PUBLIC_ENDPOINT,
    region: config.S3_REGION,
    accessKey: need('S3_ACCESS_KEY'),
    secretKey: need('S3_SECRET_KEY'),
    ca: config.S3_CA,
    scratch: config.SCRATCH_FOLDER,
    coldClass: config.S3_COLD_CLASS,
    log,
  }
  return coldBucket === undefined ? open(bucket) : openTieredStore(open(bucket), open(coldBucket))
}

function openFolders(folder: string, coldFolder: string | undefined): ObjectStore {
  if (coldFolder === undefined) return openFolderStore({ folder })
  const sourceOf = (key: string): ObjectStore => (isColdKey(key) ? cold : hot)
  const [hot, cold] = [openFolderStore({ folder, sourceOf }), openFolderStore({ folder: coldFolder, sourceOf })]
  return openTieredStore(hot, cold)
}
