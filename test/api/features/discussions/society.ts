import { madeOnce, type Part, type Question, type Society, type User } from '../../../support/society.ts'
import { type Event, eventsOf, isGuest, nameAt } from '../events/society.ts'
import { itemsOf, shownToGuests } from '../media/society.ts'
import { drawStep, talkOfAlbum } from './society/acts.ts'
import { type Comment, find, hears, itself, type Reaction, type Said, type Target, typeOf } from './society/said.ts'

const saidOf = madeOnce((society): Said => {
  const said: Said = { comments: [], reactions: [] }
  const { events, alsoShown } = eventsOf(society)
  // Of each event one after the other, so that the order is known. Drawn before anything runs: the steps mingle.
  for (const event of events) {
    const steps = society.draw.times(6, 12, () => drawStep(society))
    society.act(async () => {
      await talkOfAlbum(society, said, event)
      for (const step of steps) await step(said, event)
    })
  }
  shownToGuests(society).push((who, item) =>
    events.some((event) => isGuest(society, who, event) && find(society, said, who, event, item) !== undefined),
  )
  alsoShown.push((who, event) => reactionsTo(said, event, who, () => true))
  return said
})

const NONE = { '❤️': 0, '😂': 0, '🎉': 0, '😢': 0, '👏': 0, '🔥': 0 }

function reactionsTo(
  { reactions }: Said,
  event: Event,
  who: User,
  isHeard: (one: Reaction) => boolean,
  to: Target = event,
) {
  const heard = reactions.filter((one) => one.event === event && one.to === to && isHeard(one))
  const counts = heard.map(({ emoji }) => [emoji, heard.filter((one) => one.emoji === emoji).length])
  const own = heard.find(({ by }) => by === who)
  return {
    reaction_counts: { ...NONE, ...Object.fromEntries(counts) },
    my_reaction: own ? { reaction_id: own.id, emoji: own.emoji } : null,
  }
}

const repliesTo = ({ comments }: Said, comment: Comment) =>
  comments.filter(({ about, isDeleted }) => about === comment && !isDeleted)

/** Of a deleted comment with replies, that there was one, for those who ask for it. */
const isShown = (said: Said, comment: Comment, withDeleted: boolean): boolean =>
  !comment.isDeleted || (withDeleted && repliesTo(said, comment).length > 0)

function shownTo(society: Society, said: Said, who: User, comment: Comment): object {
  const { event, about, by, isDeleted } = comment
  const content = {
    author_name: nameAt(society, event, by),
    body: comment.body,
    media_ids: comment.attached.filter(({ deleted }) => !deleted).map(({ wireId }) => wireId),
    mentions: comment.mentions.map(({ wireId }) => wireId),
  }
  return {
    ...{ comment_id: comment.wireId, event_id: event.wireId, author_id: by.wireId, deleted: isDeleted },
    target: { type: typeOf(about), id: about.wireId },
    ...(isDeleted ? { author_name: null, body: '', media_ids: [], mentions: [] } : content),
    reply_count: repliesTo(said, comment).length,
    ...reactionsTo(said, event, who, () => true, comment),
  }
}

/** What the caller hears about a target, and each comment by itself; nothing if they do not come across the target. */
function askThread(society: Society, who: User, event: Event, named: Target, n: number): Question[] {
  const said = saidOf(society)
  const about = itself(named)
  const isThere = find(society, said, who, event, about) !== undefined
  const params = {
    ...{ org_id: event.organization.wireId, event_id: event.wireId },
    ...{ action_destination: typeOf(about), action_id: named.wireId },
  }
  const withDeleted = n % 2 === 0
  const query = withDeleted ? { include_deleted: 'true' } : {}
  const isHeard = (one: { isForAlbum: boolean }) => hears(society, who, event, one)
  const all = said.comments.filter((one) => one.event === event && one.about === about)
  const heard = all.filter((one) => isThere && isHeard(one) && isShown(said, one, withDeleted))
  const comments = heard.toReversed().map((one) => shownTo(society, said, who, one))
  const target = { type: typeOf(about), id: about.wireId, ...reactionsTo(said, event, who, isHeard, about) }
  return [
    { route: 'listComments', list: 'comments', params, query, want: isThere ? { comments, target } : undefined },
    ...all.map((one) => ({
      ...{ route: 'getComment', params: { ...params, comment_id: one.wireId }, query },
      want: heard.includes(one) ? shownTo(society, said, who, one) : undefined,
    })),
  ]
}

export const part: Part = {
  of: saidOf,
  ask(society, who) {
    const { events } = eventsOf(society)
    const said = saidOf(society)
    const { comments } = said
    return events.flatMap((event) => {
      const items = itemsOf(society).filter((item) => item.organization === event.organization)
      const talk = comments.filter((one) => one.event === event)
      // Who does not come across the event comes across nothing in it, for one reason: of each type, two are asked for.
      const isThere = find(society, said, who, event, event) !== undefined
      const some = <T>(list: T[]) => (isThere ? list : list.slice(-2))
      const targets = [event, ...some(talk), ...some(items)]
      // An event does not show what another one of the organization is about.
      const other = events.find((one) => one !== event && one.organization === event.organization)
      const strange = other ? [...comments.filter((one) => one.event === other), other] : []
      return [
        ...targets.flatMap((target, n) => askThread(society, who, event, target, n)),
        ...strange.slice(0, 2).map((target) => ({
          route: 'listComments',
          params: {
            ...{ org_id: event.organization.wireId, event_id: event.wireId },
            ...{ action_destination: typeOf(target), action_id: target.wireId },
          },
          want: undefined,
        })),
      ]
    })
  },
}
