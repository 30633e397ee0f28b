import * as z from 'zod'

/**
 * What a Job's store proxy permits. `read`: whole keys. `write`: prefixes that end in a slash; all below them may be
 * read, listed, written and deleted. `remove`: such prefixes; all below them may be listed and deleted, and the pieces of
 * highlights be read whose sources are all among `read` (see `mayUse`).
 */
export const StoreGrant = z.object({
  read: z.array(z.string().min(1)).max(64),
  write: z.array(z.string().endsWith('/')).max(64),
  remove: z.array(z.string().endsWith('/')).max(64).default([]),
})
export type StoreGrant = z.infer<typeof StoreGrant>
/** As it is written into a pod: fields that have a default may be missing. */
export type StoreGrantInput = z.input<typeof StoreGrant>

/** The grant of a Job: its sources, and everything below its output prefixes. */
export const grantFor = (inputs: readonly { sourceKey: string; outputPrefix: string }[]): StoreGrantInput => ({
  read: [...new Set(inputs.map((i) => i.sourceKey))],
  write: inputs.map((i) => i.outputPrefix),
})

/** Header of an answer that carries an object's bytes: its ObjectInfo as JSON, in ASCII as keys and types are. */
export const OBJECT_HEADER = 'x-keepsake-object'

/** The body of an answer of 400 or more. `Refused`: not granted, or not a request that the proxy knows. */
export const Refusal = z.object({
  code: z.enum([
    'NotFound',
    'InvalidPart',
    'BadDigest',
    'IncompleteBody',
    'EntityTooSmall',
    'Unavailable',
    'BadConfiguration',
    'Changed',
    'Locked',
    'Refused',
  ]),
  message: z.string(),
})
export type Refusal = z.infer<typeof Refusal>

const Time = z.iso.datetime().transform((text) => new Date(text))

/** A line of a list. */
export const ListedBody = z.object({ key: z.string(), size: z.int(), etag: z.string(), lastModified: Time })
export const InfoBody = ListedBody.extend({ contentType: z.string() })
export const ObjectBody = z.object({ object: InfoBody.nullable() })
/** The answer when there is nothing to say but that it is done. */
export const DoneBody = z.object({})
export const DeletedBody = z.object({ deleted: z.int() })
export const UploadBody = z.object({ uploadId: z.string() })
export const PartBody = z.object({ partNumber: z.int(), etag: z.string(), size: z.int() })
export const PartsBody = z.array(PartBody)
/** The parts to join, in order. */
export const NamedParts = z.array(z.object({ partNumber: z.int(), etag: z.string() }))
