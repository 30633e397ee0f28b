import * as z from 'zod'
import type { Client } from './client.ts'

/** A member of the group to invite; with a `client`, one who accepts. */
export interface Guest {
  userId: string
  client?: Client
}

const Event = z.object({ event_id: z.string(), title: z.string(), status: z.enum(['draft', 'active', 'archived']) })
type Event = z.output<typeof Event>
const Events = z.object({ events: z.array(Event) })
const Invitation = z.object({
  invitation_id: z.string(),
  status: z.string(),
  invitee: z.object({ user_id: z.string().nullable() }),
})
const Invitations = z.object({ invitations: z.array(Invitation) })

const DRAFT = 'A weekend at the lake'
const REUNION = 'Thirty years on: the reunion'
const GUEST_BY_EMAIL = 'lena@example.org'
const MESSAGE = 'It has been too long. Bring your yearbook!'

const inDays = (days: number, hour: number) => {
  const time = new Date()
  time.setDate(time.getDate() + days)
  time.setHours(hour, 0, 0, 0)
  return time.toISOString()
}
const draft = () => ({ title: DRAFT, start_at: inDays(60, 10), end_at: inDays(62, 16), location_name: 'Lake House' })
const reunion = () => ({
  title: REUNION,
  description: 'Dinner in the old gym, then the slides that Tomás found in his attic.\n\nPartners are welcome.',
  start_at: inDays(24, 17),
  end_at: inDays(24, 23),
  location_name: 'The old school, Elm Street 12',
})

/**
 * Creates a draft, and an active event with guests, through the API as an app would. Returns the active one. Each step
 * is left out where it was taken, so a run continues what an earlier one has begun.
 */
export async function sampleEvents(host: Client, organization: string, guests: Guest[]): Promise<Event> {
  const base = `/api/orgs/${organization}/events`
  const { events } = Events.parse(await host.call('GET', `${base}?limit=100`))
  const find = (title: string) => events.find((event) => event.title === title)
  if (!find(DRAFT)) await host.call('POST', base, draft())
  const event = find(REUNION) ?? Event.parse(await host.call('POST', base, reunion()))
  if (event.status === 'archived') return event
  const path = `${base}/${event.event_id}`
  await inviteMissing(host, path, guests)
  await host.call('POST', `${path}/activate`)
  await acceptPending(await invitationsTo(host, path), guests)
  return Event.parse(await host.call('GET', path))
}

const invitationsTo = async (host: Client, path: string) =>
  Invitations.parse(await host.call('GET', `${path}/invitations?limit=100`)).invitations

async function inviteMissing(host: Client, path: string, guests: Guest[]): Promise<void> {
  const invited = new Set((await invitationsTo(host, path)).map(({ invitee }) => invitee.user_id))
  const invite = (whom: object) => host.call('POST', `${path}/invitations`, { ...whom, message: MESSAGE })
  for (const { userId } of guests) if (!invited.has(userId)) await invite({ uuid: userId })
  if (!invited.has(null)) await invite({ email: GUEST_BY_EMAIL })
}

/** Those who are invited by their account need no token. */
async function acceptPending(invitations: z.output<typeof Invitation>[], guests: Guest[]): Promise<void> {
  for (const { userId, client } of guests) {
    const open = invitations.find(({ invitee, status }) => invitee.user_id === userId && status === 'pending')
    if (open) await client?.call('POST', `/api/invitations/${open.invitation_id}/respond`, { response: 'accept' })
  }
}
