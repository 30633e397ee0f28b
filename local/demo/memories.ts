import * as z from 'zod'
import type { Client } from './client.ts'

/** Who takes part in the conversation about the event. */
export interface Friends {
  host: Client
  guest: Client
  /** Of the host, to be mentioned. */
  hostId: string
}

const Album = z.object({ album_id: z.string(), media_count: z.int(), status: z.enum(['DRAFT', 'PUBLIC', 'ARCHIVE']) })
type Album = z.output<typeof Album>
const Event = z.object({ event_id: z.string(), title: z.string(), status: z.string(), album_id: z.string().nullable() })
const Comment = z.object({ comment_id: z.string(), body: z.string() })
const Comments = z.object({ comments: z.array(Comment) })

const Media = z.object({ media: z.array(z.object({ media_id: z.string() })) })

const CAPTIONS = ['The evening before the others came', 'Who else was up this early?']
const FIRST = 'I found the slides from 1994. Bring sunglasses for the haircuts.'
const REPLY = 'Only if you show the one with the moped.'

/**
 * Makes the album of an event from photos of the library, publishes it, and lets a host and a guest talk about the event.
 * Each step is left out where it was taken, so a run continues what an earlier one has begun.
 */
export async function sampleMemories(
  friends: Friends,
  { organization, event: id, media }: { organization: string; event: string; media: string[] },
): Promise<Album> {
  const { host } = friends
  const path = `/api/orgs/${organization}/events/${id}`
  const event = Event.parse(await host.call('GET', path))
  const albums = `/api/orgs/${organization}/albums`
  const made = event.album_id
    ? await host.call('GET', `${albums}/${event.album_id}`)
    : await host.call('POST', albums, { title: event.title, event_id: id })
  const album = Album.parse(made)
  if (event.status === 'archived' || album.status === 'ARCHIVE') return album
  const one = `${albums}/${album.album_id}`
  if (album.status === 'DRAFT') {
    await fill(host, `${one}/media`, media)
    await host.call('PUT', '/api/v1/albums/status', { album_id: album.album_id, status: 'PUBLIC' })
  }
  await talk(friends, path, id)
  return Album.parse(await host.call('GET', one))
}

async function fill(host: Client, items: string, media: string[]): Promise<void> {
  const there = new Set(Media.parse(await host.call('GET', items)).media.map((m) => m.media_id))
  for (const [i, id] of media.entries()) {
    if (!there.has(id)) await host.call('POST', items, { media_id: id, caption: CAPTIONS[i] ?? null })
  }
}

async function talk({ host, guest, hostId }: Friends, path: string, event: string): Promise<void> {
  const thread = `${path}/meta/${event}/comments`
  const first = await say(host, thread, FIRST)
  await say(guest, thread, `Thank you for all of this, @${hostId}!`)
  await say(guest, `${path}/comment/${first}/comments`, REPLY)
  // The same reaction again changes nothing.
  await guest.call('POST', `${path}/reactions/comment`, { action_id: first, emoji: '😂' })
  await guest.call('POST', `${path}/reactions/meta`, { action_id: event, emoji: '🎉' })
}

/** Returns the id of the comment, which may be there already. */
async function say(author: Client, thread: string, body: string): Promise<string> {
  const { comments } = Comments.parse(await author.call('GET', `${thread}?limit=100`))
  const known = comments.find((comment) => comment.body === body)
  return (known ?? Comment.parse(await author.call('POST', thread, { body }))).comment_id
}
