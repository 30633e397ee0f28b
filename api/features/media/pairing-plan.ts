import type { Uuid } from '../../../lib/contract/ids.ts'

/** What decides whether two files are the halves of a Live Photo. */
export interface Half {
  id: Uuid
  orgId: Uuid
  uploaderId: Uuid
  kind: 'image' | 'video'
  livePhotoPairId: Uuid | null
  assetIdentifier: string | null
}

/** The look-ups for the counterpart of a half, in order: the first one that finds a candidate decides. */
export type Lookup =
  | { by: 'pair'; pairId: Uuid }
  /** `unlessPairId`: a candidate with another pair id than this one belongs to another Live Photo. */
  | { by: 'asset'; asset: string; unlessPairId: Uuid | null }

/** The pair id wins: the client made it for this purpose, and phones repeat an asset identifier in each export. */
export function lookupsOf({ livePhotoPairId, assetIdentifier }: Half): Lookup[] {
  const lookups: Lookup[] = []
  if (livePhotoPairId !== null) lookups.push({ by: 'pair', pairId: livePhotoPairId })
  if (assetIdentifier !== null) lookups.push({ by: 'asset', asset: assetIdentifier, unlessPairId: livePhotoPairId })
  return lookups
}

/** The fields by which a half finds its counterpart. */
export type Keyed = Pick<Half, 'orgId' | 'uploaderId' | 'livePhotoPairId' | 'assetIdentifier'>

/** The names of the locks under which a half looks for its counterpart: the same for both halves. */
export function lockNamesOf(half: Keyed): string[] {
  const { orgId, uploaderId, livePhotoPairId, assetIdentifier } = half
  const keys = { pair: livePhotoPairId, asset: assetIdentifier }
  return Object.entries(keys).flatMap(([kind, key]) =>
    key === null ? [] : [JSON.stringify(['pairing', orgId, uploaderId, kind, key])],
  )
}

/** The image and, for a Live Photo, the video. A comment on either is a comment on the Live Photo. */
export type ItemIds = readonly [image: Uuid, video?: Uuid]

/** The ids of the item that a file is, or is a half of. The first one is the public one. */
export function itemIdsOf(file: Pick<Half, 'id' | 'kind'> & { pairedMediaId: Uuid | null }): ItemIds {
  const { id, kind, pairedMediaId: other } = file
  if (other === null) return [id]
  return kind === 'image' ? [id, other] : [other, id]
}

/** The public item is the image. Undefined for two files of one kind. */
export function livePhotoOf<T extends Pick<Half, 'kind'>>(a: T, b: T): { image: T; video: T } | undefined {
  if (a.kind === b.kind) return undefined
  return a.kind === 'image' ? { image: a, video: b } : { image: b, video: a }
}
