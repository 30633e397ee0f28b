import { coldKeyOf } from './cold-key.ts'
import type { Uuid } from './ids.ts'

/**
 * The keys of all objects. Pure and shared, so that api, jobs and retention always agree. Keys contain only ids: text
 * from a user never becomes part of a path. `api/orphans/folder-plan.ts` reads them back.
 */
export const mediaPrefix = (org: Uuid, media: Uuid) => `org/${org}/media/${media}/`
export const originalKey = (org: Uuid, media: Uuid) => `${mediaPrefix(org, media)}original`
/** Where the original is once it has moved to the cold tier. Below the same prefix, so that it is purged with it. */
export const coldOriginalKey = (org: Uuid, media: Uuid) => coldKeyOf(originalKey(org, media))
/** Where an original is; `both`: it has just moved, and the first copy is about to be deleted. */
export type OriginalTier = 'hot' | 'both' | 'cold'
/** Where to read the original. Links name `originalKey` in any tier, so that they outlive a move. */
export const originalKeyIn = (tier: OriginalTier, org: Uuid, media: Uuid) =>
  tier === 'hot' ? originalKey(org, media) : coldOriginalKey(org, media)

/** Each generation (a deliberate re-encode) has its own prefix, so that caches may treat its files as immutable. */
export const outputPrefix = (org: Uuid, media: Uuid, generation: number) => `${mediaPrefix(org, media)}v${generation}/`
export const manifestKey = (prefix: string) => `${prefix}manifest.json`
export const masterKey = (prefix: string) => `${prefix}master.m3u8`

/** Holds chunks below 5 MiB, the minimum of an S3 part, until the merge. */
export const stagingPrefix = (org: Uuid, upload: Uuid) => `org/${org}/staging/${upload}/`
export const stagedChunkKey = (org: Uuid, upload: Uuid, index: number) => `${stagingPrefix(org, upload)}${index}`

/** All files of a highlight. */
export const highlightPrefix = (org: Uuid, highlight: Uuid) => `org/${org}/highlights/${highlight}/`
/** Each generation of a highlight has its own prefix, as for media. */
export const renderPrefix = (org: Uuid, highlight: Uuid, generation: number) =>
  `${highlightPrefix(org, highlight)}v${generation}/`
/** Normalized pieces of a media item, kept for later highlights. Below the prefix of the media item, so that they are purged with it. */
export const piecesPrefix = (org: Uuid, media: Uuid) => `${mediaPrefix(org, media)}pieces/`
/** All files of what one user can download, in any export. */
export const downloadsPrefix = (user: Uuid) => `downloads/${user}/`
/** The files of one export. Their names in it are of our making: digits, lowercase letters, hyphens and dots. */
export const downloadPrefix = (user: Uuid, id: Uuid) => `${downloadsPrefix(user)}${id}/`
/** The audio file of a music track. */
export const trackKey = (track: Uuid) => `tracks/${track}/audio`
/**
 * The entries of the audit log of one UTC day, once they have left the database. Each attempt to write them has its own key;
 * the row of the day names the one that readers ask for.
 */
export const auditDayKey = (day: string, attempt: Uuid) => `audit/days/${day}.${attempt}.jsonl.gz`
/** What a dry run of a retention policy would do. */
export const retentionReportKey = (run: string) => `retention/reports/${run}.jsonl.gz`
