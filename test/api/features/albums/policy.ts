import t from 'tap'
import { ALBUM_STATUSES, ALBUM_VISIBILITIES } from '../../../../api/db/schema/albums.ts'
import { EVENT_STATUSES } from '../../../../api/db/schema/events.ts'
import { albumActions, unlessReadOnly, viewersOf, withArchive } from '../../../../api/features/albums/policy.ts'
import { type Action, decide } from '../../../../api/permissions/rule.ts'

const CALLERS = {
  'owner of the album': { userId: 'me', role: 'member', isParticipant: false },
  administrator: { userId: 'other', role: 'admin', isParticipant: false },
  'owner of the organization': { userId: 'other', role: 'owner', isParticipant: false },
  host: { userId: 'host', role: 'member', isParticipant: false },
  participant: { userId: 'other', role: 'member', isParticipant: true },
  member: { userId: 'other', role: 'member', isParticipant: false },
  // The owner of the album has left, and come back as a guest of the event.
  guest: { userId: 'me', role: null, isParticipant: true },
  // The owner of the event has left it with the organization.
  'former host': { userId: 'host', role: null, isParticipant: false },
  'former member': { userId: 'me', role: null, isParticipant: false },
} as const
type Caller = keyof typeof CALLERS

const MANAGERS: Caller[] = ['owner of the album', 'administrator', 'owner of the organization']
const PARTICIPANTS: Caller[] = [...MANAGERS, 'participant']
const MEMBERS: Caller[] = [...PARTICIPANTS, 'member']

const HOST: Caller[] = ['host']

/** Everyone who sees an album, besides its event's host, by status and visibility. */
const SEE: Record<string, Caller[]> = {
  'DRAFT organization': MANAGERS,
  'DRAFT participants': MANAGERS,
  'DRAFT private': MANAGERS,
  'PUBLIC organization': MEMBERS,
  'PUBLIC participants': PARTICIPANTS,
  'PUBLIC private': MANAGERS,
  'ARCHIVE organization': MANAGERS,
  'ARCHIVE participants': MANAGERS,
  'ARCHIVE private': MANAGERS,
}

const names = Object.keys(CALLERS) as Caller[]
const inOrder = (...callers: Caller[]) => names.filter((name) => callers.includes(name))
const OF_EVENT = inOrder(...MANAGERS, ...HOST)
const BOTH_OWNERS = inOrder('owner of the album', ...HOST)

for (const status of ALBUM_STATUSES) {
  for (const visibility of ALBUM_VISIBILITIES) {
    const seen = SEE[`${status} ${visibility}`] ?? []
    const allowed = (
      action: Action,
      eventStatus: (typeof EVENT_STATUSES)[number] | null,
      { ownerIsMember = true, eventOwnerId = eventStatus && 'host' } = {},
    ) =>
      names.filter((name) => {
        const { isParticipant, ...who } = CALLERS[name]
        const album = { ownerId: 'me', eventOwnerId, status, visibility, isParticipant, eventStatus, ownerIsMember }
        return decide(action, { ...who, platformAdmin: false }, album as never) === 'allowed'
      })

    t.test(`a ${status} album for ${visibility}`, async (t) => {
      t.strictSame(allowed(albumActions.read, null), inOrder(...seen, ...(seen.includes('member') ? HOST : [])), 'read')
      t.strictSame(allowed(albumActions.update, null), MANAGERS, 'update')
      t.strictSame(allowed(albumActions.addMedia, null), MANAGERS, 'add')
      t.strictSame(allowed(albumActions.setStatus, null), ['owner of the album'], 'status')
      t.strictSame(
        allowed(albumActions.setStatus, null, { ownerIsMember: false }),
        MANAGERS,
        'status without its owner',
      )
      for (const eventStatus of EVENT_STATUSES) {
        const isPublished = eventStatus !== 'draft'
        const guests: Caller[] = isPublished && seen.includes('participant') ? ['guest'] : []
        const readers = inOrder(...seen, ...HOST, ...guests)
        t.strictSame(allowed(albumActions.read, eventStatus), readers, `read, event ${eventStatus}`)
        t.strictSame(allowed(albumActions.update, eventStatus), OF_EVENT, `update, event ${eventStatus}`)
        t.strictSame(allowed(albumActions.setStatus, eventStatus), BOTH_OWNERS, `status, event ${eventStatus}`)
        const own = allowed(albumActions.setStatus, eventStatus, { eventOwnerId: 'me' })
        t.strictSame(own, ['owner of the album'], `status with the event of its owner, ${eventStatus}`)
        const left = allowed(albumActions.setStatus, eventStatus, { ownerIsMember: false })
        t.strictSame(left, OF_EVENT, `status without its owner, event ${eventStatus}`)
        const adds = isPublished ? inOrder(...seen.filter((name) => name !== 'member'), ...HOST) : OF_EVENT
        t.strictSame(allowed(albumActions.addMedia, eventStatus), adds, `add, event ${eventStatus}`)
      }
      const audience = seen.includes('member') ? 'members' : seen.includes('participant') ? 'participants' : 'managers'
      t.equal(viewersOf({ status, visibility }), audience)
      const isArchived = status === 'ARCHIVE'
      const state = unlessReadOnly(withArchive({ status }, { isReadOnly: true }))
      t.match(state, isArchived ? { code: 'ALBUM_ARCHIVED' } : undefined)
      t.equal(unlessReadOnly(withArchive({ status }, { isReadOnly: false })), undefined)
    })
  }
}
