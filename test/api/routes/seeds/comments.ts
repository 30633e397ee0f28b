import { randomUUID } from 'node:crypto'
import { anEvent } from './events.ts'
import { type ListSeeds, made, type Seeds, type Side } from './seed.ts'

const comment = () => ({ body: randomUUID() })

const onEvent = async (side: Side, event = anEvent(side)) => {
  const id = await event
  return { org_id: side.org, event_id: id, action_destination: 'meta', action_id: id }
}
type Thread = Awaited<ReturnType<typeof onEvent>>

const add = async (
  { api, org, person }: Side,
  { event_id, action_destination, action_id }: Thread,
): Promise<string> => {
  const path = `/api/orgs/${org}/events/${event_id}/${action_destination}/${action_id}/comments`
  return (await made(api.call(person, 'POST', path, { json: comment() }))).comment_id
}

/** The replies to a comment on an event. */
const onComment = async (side: Side): Promise<Thread> => {
  const event = await onEvent(side)
  return { ...event, action_destination: 'comment', action_id: await add(side, event) }
}

const of = (make: typeof onComment) => async (side: Side) => {
  const thread = await make(side)
  return { as: side.person, params: { ...thread, comment_id: await add(side, thread) } }
}

/** All requests of one list ask for the same thread. */
const threads = new WeakMap<Side, Promise<Thread>>()
const theThread = (side: Side): Promise<Thread> => {
  const known = threads.get(side) ?? onComment(side)
  threads.set(side, known)
  return known
}

export const aComment = async (side: Side) => of(onEvent)(side)

export const commentSeeds: Seeds = {
  createComment: async (side) => ({ as: side.person, params: await onComment(side), json: comment() }),
  listComments: async (side) => ({ as: side.person, params: await theThread(side) }),
  getComment: of(onComment),
  editComment: async (side) => ({ ...(await of(onComment)(side)), json: comment() }),
  deleteComment: async (side) => ({ ...(await of(onEvent)(side)), json: { reason: randomUUID() } }),
}

export const commentLists: ListSeeds = {
  listComments: { add: async (side) => add(side, await theThread(side)) },
}
