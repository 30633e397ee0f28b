import type { Uuid } from './ids.ts'

/**
 * Where objects live. Pure, so that api, jobs and retention can never disagree. Keys are made of ids only: a user's
 * text never becomes part of a path.
 */
export const mediaPrefix = (org: Uuid, media: Uuid) => `org/${org}/media/${media}/`
export const originalKey = (org: Uuid, media: Uuid) => `${mediaPrefix(org, media)}original`

/** Each generation (a deliberate re-encode) writes below its own prefix, so that its files are immutable for caches. */
export const outputPrefix = (org: Uuid, media: Uuid, generation: number) => `${mediaPrefix(org, media)}v${generation}/`
export const manifestKey = (prefix: string) => `${prefix}manifest.json`
export const masterKey = (prefix: string) => `${prefix}master.m3u8`

/** Chunks below the 5 MiB that S3 demands of a part wait here for the merge. */
export const stagingPrefix = (org: Uuid, upload: Uuid) => `org/${org}/staging/${upload}/`
export const stagedChunkKey = (org: Uuid, upload: Uuid, index: number) => `${stagingPrefix(org, upload)}${index}`
