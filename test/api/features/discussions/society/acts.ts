import type { Answer } from '../../../../support/api.ts'
import { everIn, isMember, type Society, type User, word } from '../../../../support/society.ts'
import { albumOfEvent } from '../../albums/society.ts'
import type { Event } from '../../events/society.ts'
import { itemsOf } from '../../media/society.ts'
import { type Comment, find, hears, isComment, itself, type Reaction, type Said, type Target, typeOf } from './said.ts'

/** What a user posts or withdraws. All acts are drawn before the first one runs: those of several events interleave. */
export function drawStep(society: Society): (said: Said, event: Event) => Promise<void> {
  const { draw, users } = society
  const kind = draw.one('comment', 'comment', 'reply', 'react', 'react', 'react', 'delete')
  const [who, place, attaches] = [draw.upTo(99), draw.upTo(99), draw.rarely(2)]
  const [isStranger, mentioned, emoji] = [draw.rarely(3), draw.one(...users), draw.one('❤️', '😂', '🎉')]
  return async (said, event) => {
    const nth = <T>(list: readonly T[]): T | undefined => list[place % list.length]
    const people = isStranger ? users : everIn(society, event.organization)
    const by = people[who % people.length] as User
    const { targets, first, items } = around(society, said, event)
    const target = nth(targets) ?? event
    if (kind === 'react') return react(society, said, event, { by, to: target, emoji })
    if (kind === 'delete') return remove(society, nth(first.filter((one) => !one.isDeleted)))
    const item = attaches ? nth(items) : undefined
    const about = kind === 'reply' ? (nth(first) ?? event) : target
    return comment(society, said, event, { by, about, attached: item ? [item] : [], mentioned })
  }
}

/** Some items of an album are talked about where the album is, and shown to everyone at the event as well. */
export async function talkOfAlbum(society: Society, said: Said, event: Event): Promise<void> {
  const album = albumOfEvent(society, event)
  const items = album?.places.slice(0, 2).map(({ item }) => item) ?? []
  if (!album || items.length === 0) return
  const [by, mentioned] = [album.owner, event.owner]
  for (const item of items) {
    await comment(society, said, event, { by, about: item, attached: [], mentioned })
    const about = said.comments.findLast((one) => one.event === event) ?? event
    await comment(society, said, event, { by, about, attached: [], mentioned })
    await react(society, said, event, { by, to: item, emoji: '🔥' })
  }
  for (const to of [event, ...items]) {
    await comment(society, said, event, { by: mentioned, about: event, attached: items, mentioned })
    await react(society, said, event, { by: mentioned, to, emoji: '👏' })
  }
}

/** What may be talked about: often what is in the album of the event. */
function around(society: Society, { comments }: Said, event: Event) {
  const all = itemsOf(society).filter(({ organization }) => organization === event.organization)
  const inAlbum = albumOfEvent(society, event)?.places.map(({ item }) => item) ?? []
  const here = comments.filter((one) => one.event === event)
  const attached = here.flatMap((one) => one.attached)
  const targets: Target[] = [event, ...inAlbum, ...inAlbum, ...here, ...attached, ...all]
  return { targets, first: here.filter(({ about }) => !isComment(about)), items: inAlbum.length > 0 ? inAlbum : all }
}

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
  { by, about, mentioned, ...given }: Pick<Comment, 'by' | 'about' | 'attached'> & { mentioned: User },
): Promise<void> {
  // Guests have nothing to attach.
  const attached = isMember(society, by, event.organization) ? given.attached : []
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
