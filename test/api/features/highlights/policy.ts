import t from 'tap'
import { ALBUM_STATUSES, ALBUM_VISIBILITIES } from '../../../../api/db/schema/albums.ts'
import { highlightActions } from '../../../../api/features/highlights/policy.ts'
import { type Action, decide } from '../../../../api/permissions/rule.ts'

const CALLERS = {
  creator: { userId: 'creator', role: 'member', isParticipant: false },
  'owner of the album': { userId: 'owner', role: 'member', isParticipant: false },
  administrator: { userId: 'other', role: 'admin', isParticipant: false },
  participant: { userId: 'other', role: 'member', isParticipant: true },
  member: { userId: 'other', role: 'member', isParticipant: false },
  // The creator has left, and come back as a guest of the event.
  guest: { userId: 'creator', role: null, isParticipant: true },
  'former member': { userId: 'creator', role: null, isParticipant: false },
} as const
type Caller = keyof typeof CALLERS
const names = Object.keys(CALLERS) as Caller[]

const THEIRS: Caller[] = ['creator', 'administrator']
const MANAGERS: Caller[] = ['creator', 'owner of the album', 'administrator']
const VIEWERS: Record<string, Caller[]> = {
  'PUBLIC organization': [...MANAGERS, 'participant', 'member', 'guest'],
  'PUBLIC participants': [...MANAGERS, 'participant', 'guest'],
}

const allowed = (action: Action, album: object | null) =>
  names.filter((name) => {
    const { isParticipant, ...who } = CALLERS[name]
    const row = {
      createdBy: 'creator',
      album: album && { ownerId: 'owner', isParticipant, eventStatus: 'active', ...album },
    }
    return decide(action, { ...who, platformAdmin: false }, row as never) === 'allowed'
  })

t.test('without an album, a highlight is for its creator and the administrators', async (t) => {
  t.strictSame(allowed(highlightActions.read, null), THEIRS)
  t.strictSame(allowed(highlightActions.delete, null), THEIRS)
})

for (const status of ALBUM_STATUSES) {
  for (const visibility of ALBUM_VISIBILITIES) {
    t.test(`a highlight of a ${status} album for ${visibility}`, async (t) => {
      const album = { status, visibility }
      t.strictSame(allowed(highlightActions.read, album), VIEWERS[`${status} ${visibility}`] ?? MANAGERS)
      t.strictSame(allowed(highlightActions.delete, album), MANAGERS)
    })
  }
}
