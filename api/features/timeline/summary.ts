import type { TimelineItemRow } from '../../db/schema/timeline.ts'

/** What a summary says. `total`: media items, at most `MAX_COUNT` + 1. */
export interface Told extends Pick<TimelineItemRow, 'type' | 'change'> {
  actorName: string | null
  isActorPresent: boolean
  eventTitle: string | null
  albumTitle: string | null
  /** Of comments and reactions: what they are about. */
  on: 'meta' | 'comment' | 'media' | undefined
  emoji: string | undefined
  total: number
  /** Of the media items that are shown. */
  kinds: readonly ('image' | 'video')[]
}

/** Counting ends here: the summary then says `10,000+`. */
export const MAX_COUNT = 10_000

/** One line of English text: `Mira added 5,000 photos`. */
export function summaryOf(told: Told): string {
  const who = told.actorName ?? (told.isActorPresent ? 'A member' : 'A former member')
  return `${who} ${did(told)}`
}

function did(told: Told): string {
  const event = quoted(told.eventTitle)
  const album = quoted(told.albumTitle)
  switch (told.type) {
    case 'event_created':
      return `created the event ${event}`
    case 'event_activated':
      return `activated the event ${event}`
    case 'album_created':
      return `created the album ${album}`
    case 'album_updated':
      return told.change === 'media_added'
        ? `added ${mediaOf(told)} to the album ${album}`
        : `changed the album ${album}`
    case 'media_uploaded':
      return `added ${mediaOf(told)}`
    case 'member_joined':
      return 'joined'
    case 'reaction_added':
      return `reacted ${told.emoji ?? ''} to ${targetOf(told, event)}`.replace('  ', ' ')
    case 'comment_posted':
      return told.on === 'comment' ? `replied to a comment on ${event}` : `commented on ${targetOf(told, event)}`
  }
}

const quoted = (title: string | null) => `“${title ?? ''}”`

const TARGETS = { meta: '', comment: 'a comment on ', media: 'a photo or video of ' }
const targetOf = ({ on = 'meta' }: Told, event: string) => `${TARGETS[on]}${event}`

function mediaOf({ total, kinds }: Told): string {
  const [one, many] = kinds.every((kind) => kind === 'image')
    ? ['a photo', 'photos']
    : kinds.every((kind) => kind === 'video')
      ? ['a video', 'videos']
      : ['a photo', 'photos and videos']
  return total === 1 ? one : `${countOf(total)} ${many}`
}

const countOf = (total: number) =>
  total > MAX_COUNT ? `${MAX_COUNT.toLocaleString('en')}+` : total.toLocaleString('en')
