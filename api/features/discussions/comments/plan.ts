import type { Uuid } from '../../../../lib/contract/ids.ts'
import { unionOf } from './mentions.ts'

export interface Content {
  body: string
  mediaIds: readonly Uuid[]
  /** The users whom the field `mentions` of the requests names. */
  mentionsGiven: readonly Uuid[]
  /** The same users, and those whom the body names. */
  mentions: readonly Uuid[]
}

/** What a request sets; undefined leaves a field as it is. */
export interface Changes {
  body?: string | undefined
  media_ids?: Uuid[] | null | undefined
  mentions?: Uuid[] | null | undefined
}

export interface Edit {
  content: Content
  isChange: boolean
  /** Attachments that the comment did not have: only these are looked up. */
  attached: Uuid[]
  /** Mentions that the comment did not have. Those who left the organization since stay mentioned. */
  added: Uuid[]
}

const NOTHING: Content = { body: '', mediaIds: [], mentionsGiven: [], mentions: [] }

/** Plans a new comment or an edit of one. */
export function planEdit(changes: Changes, before: Content = NOTHING): Edit {
  const body = changes.body ?? before.body
  const mediaIds = changes.media_ids === undefined ? before.mediaIds : (changes.media_ids ?? [])
  const mentionsGiven = changes.mentions === undefined ? before.mentionsGiven : [...new Set(changes.mentions ?? [])]
  const mentions = unionOf(mentionsGiven, body)
  const content = { body, mediaIds, mentionsGiven, mentions }
  return {
    content,
    isChange: JSON.stringify(content) !== JSON.stringify(orderedOf(before)),
    attached: without(mediaIds, before.mediaIds),
    added: without(mentions, before.mentions),
  }
}

const without = (all: readonly Uuid[], known: readonly Uuid[]) => all.filter((id) => !known.includes(id))

/** With the keys in the order in which `planEdit` writes them. */
const orderedOf = ({ body, mediaIds, mentionsGiven, mentions }: Content): Content => ({
  body,
  mediaIds,
  mentionsGiven,
  mentions,
})
