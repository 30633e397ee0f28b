import { framesOf, HIGHLIGHT_FPS, highlightFrames } from '../../../lib/contract/highlight-length.ts'
import type { Uuid } from '../../../lib/contract/ids.ts'
import type { HighlightItemRow, HighlightRow, ItemType } from '../../db/schema/highlights.ts'

/** Seconds that an image is shown. */
export const IMAGE_SECONDS = 3
/** Seconds after which a video is cut. */
const VIDEO_SECONDS = 15
/** What a video counts as until its duration is known. */
const UNKNOWN_SECONDS = 6
/** The same of a Live Photo: phones record about 3 s. */
const MOTION_SECONDS = 3
/** The longest text over an item, in code points: the limit of the custom resource. */
const CAPTION_LENGTH = 200

/** A media item that was chosen, as it is when the highlight is created. */
export interface Source {
  id: Uuid
  uploaderId: Uuid
  kind: 'image' | 'video'
  /** False if its conversion has failed. */
  isUsable: boolean
  /** Null until the conversion has found it out, and for an image. */
  durationSec: number | null
  /** `2026-11-21`, by the clock of the camera; null where the file does not say, or has not been read yet. */
  takenOn: string | null
  /** Text in the album of the highlight. */
  caption: string | null
  /** Who wrote it. */
  captionBy: Uuid | null
  /** The video of a Live Photo that can be played; undefined for anything else. */
  motion: Pick<Source, 'id' | 'durationSec'> | undefined
}

export type Item = Pick<
  HighlightItemRow,
  'mediaId' | 'sourceId' | 'uploaderId' | 'type' | 'seconds' | 'caption' | 'captionBy' | 'skipped'
>

/** Returns the place of each chosen media item that the highlight cannot have, and the reason. */
export function unavailable(
  chosen: readonly (Source | undefined)[],
  { skipBroken, inAlbum }: { skipBroken: boolean; inAlbum: ((source: Source) => boolean) | undefined },
): { place: number; issue: string }[] {
  const issues = chosen.flatMap((source, place) => {
    if (!source) return [{ place, issue: 'is not available', canBeSkipped: false }]
    if (inAlbum && !inAlbum(source)) return [{ place, issue: 'is not in the album', canBeSkipped: false }]
    return source.isUsable ? [] : [{ place, issue: CONVERSION_FAILED, canBeSkipped: skipBroken }]
  })
  const nothingIsLeft = issues.length === chosen.length
  return issues
    .filter(({ canBeSkipped }) => nothingIsLeft || !canBeSkipped)
    .map(({ place, issue }) => ({ place, issue }))
}
const CONVERSION_FAILED = 'could not be converted'

/** What the highlight consists of. A Live Photo is shown by its moving part. */
export const itemOf = (source: Source, captions: HighlightRow['captions']): Item => ({
  mediaId: source.id,
  sourceId: source.motion?.id ?? source.id,
  uploaderId: source.uploaderId,
  type: typeOf(source),
  seconds: typeOf(source) === 'image' ? IMAGE_SECONDS : VIDEO_SECONDS,
  caption: captionOf(source, captions),
  captionBy: captions === 'caption' ? source.captionBy : null,
  skipped: source.isUsable ? null : 'Its conversion has failed',
})

const typeOf = ({ kind, motion }: Source): ItemType => (motion ? 'motion' : kind)

function captionOf({ caption, takenOn }: Source, captions: HighlightRow['captions']): string {
  const text = { none: null, caption, date: takenOn }[captions]
  return highlightText(text ?? '')
}

/** Text as the custom resource takes it: one line, without control characters, cut to fit. */
export function highlightText(text: string): string {
  const characters = [...text.replace(/\p{Cc}+/gu, ' ')]
  return characters.length <= CAPTION_LENGTH
    ? characters.join('')
    : `${characters.slice(0, CAPTION_LENGTH - 1).join('')}…`
}

/** Whole seconds of the highlight, rounded up. Sources that are left out do not count. */
export function estimateOf(sources: readonly Source[], transition: HighlightRow['transition']): number {
  const items = sources.filter(({ isUsable }) => isUsable).map((source) => ({ frames: framesOf(secondsOf(source)) }))
  return Math.ceil(highlightFrames(items, transition).total / HIGHLIGHT_FPS)
}

function secondsOf(source: Source): number {
  if (typeOf(source) === 'image') return IMAGE_SECONDS
  const { motion, durationSec } = source
  return Math.min(VIDEO_SECONDS, motion ? (motion.durationSec ?? MOTION_SECONDS) : (durationSec ?? UNKNOWN_SECONDS))
}
