import t from 'tap'
import { summaryOf, type Told } from '../../../../api/features/timeline/summary.ts'

const told = (o: Partial<Told>): Told => ({
  type: 'media_uploaded',
  change: null,
  actorName: 'Mira',
  isActorPresent: true,
  eventTitle: 'Party',
  albumTitle: 'Summer',
  on: undefined,
  emoji: undefined,
  total: 0,
  kinds: ['image'],
  ...o,
})

const SUMMARIES: [Partial<Told>, string][] = [
  [{ total: 1 }, 'Mira added a photo'],
  [{ total: 5000 }, 'Mira added 5,000 photos'],
  [{ total: 10_000 }, 'Mira added 10,000 photos'],
  [{ total: 10_001 }, 'Mira added 10,000+ photos'],
  [{ total: 1, kinds: ['video'] }, 'Mira added a video'],
  [{ total: 2, kinds: ['video', 'video'] }, 'Mira added 2 videos'],
  [{ total: 2, kinds: ['video', 'image'] }, 'Mira added 2 photos and videos'],
  [{ actorName: null, type: 'member_joined' }, 'A member joined'],
  [{ actorName: null, isActorPresent: false, type: 'member_joined' }, 'A former member joined'],
  [{ type: 'album_updated', change: 'media_added', total: 3 }, 'Mira added 3 photos to the album “Summer”'],
  [{ type: 'album_updated', change: 'details' }, 'Mira changed the album “Summer”'],
  [{ type: 'comment_posted', on: 'meta' }, 'Mira commented on “Party”'],
  [{ type: 'comment_posted', on: 'comment' }, 'Mira replied to a comment on “Party”'],
  [{ type: 'reaction_added', on: 'media', emoji: '🎉' }, 'Mira reacted 🎉 to a photo or video of “Party”'],
  [{ type: 'reaction_added', on: 'comment', emoji: '🔥' }, 'Mira reacted 🔥 to a comment on “Party”'],
]
for (const [given, summary] of SUMMARIES) t.equal(summaryOf(told(given)), summary)
