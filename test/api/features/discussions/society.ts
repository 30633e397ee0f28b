import type { Answer } from '../../../support/api.ts'
import {
  everIn,
  madeOnce,
  nameIn,
  type Part,
  type Question,
  type Society,
  type User,
  word,
} from '../../../support/society.ts'
import { albumOfEvent, seesAlbum, shownPlaces } from '../albums/society.ts'
import { type Event, eventsOf, seesEvent } from '../events/society.ts'
import { type Item, itemsOf } from '../media/society.ts'

/** What something is said about: an event, a comment or a media item. */
type Target = Event | Comment | Item

interface Comment {
  wireId: string
  event: Event
  about: Target
  by: User
  body: string
  attached: Item[]
  mentions: User[]
  isForAlbum: boolean
  isDeleted: boolean
}
interface Reaction {
  event: Event
  to: Target
  by: User
  emoji: string
  /** Of the answer. */
  id: string
  isForAlbum: boolean
}
/** What was said, oldest first. `isForAlbum`: only for those who see the album of the event. */
interface Said {
  comments: Comment[]
  reactions: Reaction[]
}

const isComment = (target: Target): target is Comment => 'body' in target
const isItem = (target: Target): target is Item => 'uploader' in target
const typeOf = (target: Target) => (isComment(target) ? 'comment' : isItem(target) ? 'media' : 'meta')

const saidOf = madeOnce((society): Said => {
  const said: Said = { comments: [], reactions: [] }
  const { events, alsoShown } = eventsOf(society)
  // Of each event one after the other, so that the order is known. Drawn before anything runs: the steps mingle.
  for (const event of events) {
    const steps = society.draw.times(8, 14, () => drawStep(society))
    society.act(async () => {
      for (const step of steps) await step(said, event)
    })
  }
  alsoShown.push((who, event) => reactionsTo(said, event, who, () => true))
  return said
})

function drawStep(society: Society): (said: Said, event: Event) => Promise<void> {
  const { draw, users } = society
  const kind = draw.one('comment', 'comment', 'reply', 'react', 'react', 'react', 'delete')
  const [who, place, attaches] = [draw.upTo(99), draw.upTo(99), draw.rarely(2)]
  const [isStranger, mentioned, emoji] = [draw.rarely(6), draw.one(...users), draw.one('❤️', '😂', '🎉')]
  return async (said, event) => {
    const nth = <T>(list: readonly T[]): T | undefined => list[place % list.length]
    const people = isStranger ? users : everIn(society, event.organization)
    const by = people[who % people.length] as User
    const items = itemsOf(society).filter(({ organization }) => organization === event.organization)
    const inAlbum = albumOfEvent(society, event)?.places.map(({ item }) => item) ?? []
    const comments = said.comments.filter((one) => one.event === event)
    const first = comments.filter(({ about }) => !isComment(about))
    const attached = comments.flatMap((one) => one.attached)
    const target = nth<Target>([event, ...inAlbum, ...inAlbum, ...comments, ...attached, ...items]) ?? event
    if (kind === 'react') return react(society, said, event, { by, to: target, emoji })
    if (kind === 'delete') return remove(society, nth(first.filter((one) => !one.isDeleted)))
    const item = nth(inAlbum.length > 0 ? inAlbum : items)
    const about = kind === 'reply' ? (nth(first) ?? event) : target
    await comment(society, said, event, { by, about, attached: attaches && item ? [item] : [], mentioned })
  }
}

/** Whether a comment or a reaction is for the caller, who sees the event. */
const hears = (society: Society, who: User, event: Event, { isForAlbum }: { isForAlbum: boolean }): boolean =>
  seesEvent(society, who, event) && (!isForAlbum || seesAlbumOf(society, who, event))

function seesAlbumOf(society: Society, who: User, event: Event): boolean {
  const album = albumOfEvent(society, event)
  return album !== undefined && seesAlbum(society, who, album)
}

/**
 * Where the caller comes across a media item at an event: in the album of the event, if they see that, or attached to a
 * comment that they may hear of. What they then say is for those who see the album if they found it there, or in what is
 * said there.
 */
function findItem(
  society: Society,
  said: Said,
  who: User,
  event: Event,
  item: Item,
): { isForAlbum: boolean } | undefined {
  if (item.organization !== event.organization || item.deleted || !seesEvent(society, who, event)) return undefined
  const isIt = (one: Item) => one === item || one === item.half
  const album = seesAlbumOf(society, who, event) ? albumOfEvent(society, event) : undefined
  const isInAlbum = album !== undefined && shownPlaces(album).some((place) => isIt(place.item))
  const attachedTo = said.comments.filter(
    (one) => one.event === event && !one.isDeleted && hears(society, who, event, one) && one.attached.some(isIt),
  )
  if (!isInAlbum && attachedTo.length === 0) return undefined
  return { isForAlbum: isInAlbum || attachedTo.some((one) => one.isForAlbum) }
}

/** For whom it is what the caller says about the target; undefined if they do not come across it. */
function find(
  society: Society,
  said: Said,
  who: User,
  event: Event,
  target: Target,
): { isForAlbum: boolean } | undefined {
  if (isItem(target)) return findItem(society, said, who, event, target)
  if (!isComment(target)) return target === event && seesEvent(society, who, event) ? { isForAlbum: false } : undefined
  if (target.event !== event || !hears(society, who, event, target)) return undefined
  const item = isComment(target.about) ? target.about.about : target.about
  return isItem(item) && !findItem(society, said, who, event, item) ? undefined : target
}

/** What is said about either half of a Live Photo is said about its image. */
const itself = (target: Target): Target =>
  isItem(target) && target.kind === 'video' ? (target.half ?? target) : target

function expect(answer: Answer, wanted: boolean, what: string): boolean {
  const isDone = answer.status === 200 || answer.status === 201 || answer.status === 204
  if (isDone !== wanted || (!isDone && answer.status !== 404)) {
    throw new Error(
      `${what}: ${answer.status} ${JSON.stringify(answer.body)}, and ${wanted ? 'may' : 'may not'} by the rules`,
    )
  }
  return isDone
}

const pathOf = ({ organization, wireId }: Event) => `/api/orgs/${organization.wireId}/events/${wireId}`
const threadOf = (event: Event, about: Target) => `${pathOf(event)}/${typeOf(about)}/${about.wireId}/comments`

async function comment(
  society: Society,
  said: Said,
  event: Event,
  { by, about, attached, mentioned }: Pick<Comment, 'by' | 'about' | 'attached'> & { mentioned: User },
): Promise<void> {
  // There are no replies to replies.
  if (isComment(about) && isComment(about.about)) return
  const place = find(society, said, by, event, about)
  const mentions = place && hears(society, mentioned, event, place) ? [mentioned] : []
  const body = word('Comment')
  const answer = await society.api.call(by, 'POST', threadOf(event, about), {
    json: { body, media_ids: attached.map(({ wireId }) => wireId), mentions: mentions.map(({ wireId }) => wireId) },
  })
  const isOpen = place !== undefined && !(isComment(about) && about.isDeleted)
  if (!expect(answer, isOpen, `${by.name} comments on ${threadOf(event, about)}`) || !place) return
  const { isForAlbum } = place
  const wireId: string = answer.data.comment_id
  said.comments.push({
    wireId,
    event,
    about: itself(about),
    by,
    body,
    attached,
    mentions,
    isForAlbum,
    isDeleted: false,
  })
}

async function react(
  society: Society,
  said: Said,
  event: Event,
  { by, to, emoji }: Pick<Reaction, 'by' | 'to' | 'emoji'>,
): Promise<void> {
  if (said.reactions.some((one) => one.event === event && one.by === by && one.to === itself(to))) return
  const place = find(society, said, by, event, to)
  const path = `${pathOf(event)}/reactions/${typeOf(to)}`
  const answer = await society.api.call(by, 'POST', path, { json: { action_id: to.wireId, emoji } })
  const isOpen = place !== undefined && !(isComment(to) && to.isDeleted)
  if (!expect(answer, isOpen, `${by.name} reacts to ${to.wireId} by ${path}`) || !place) return
  const { isForAlbum } = place
  said.reactions.push({ event, to: itself(to), by, emoji, id: answer.data.reaction_id, isForAlbum })
}

async function remove({ api }: Society, comment: Comment | undefined): Promise<void> {
  if (!comment) return
  const path = `${threadOf(comment.event, comment.about)}/${comment.wireId}`
  expect(await api.call(comment.by, 'DELETE', path), true, `the author deletes ${path}`)
  comment.isDeleted = true
}

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
    author_name: nameIn(society, event.organization, by),
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
    const { comments } = saidOf(society)
    return events.flatMap((event) => {
      const items = itemsOf(society).filter((item) => item.organization === event.organization)
      const targets = [event, ...comments.filter((one) => one.event === event), ...items]
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
