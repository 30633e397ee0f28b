import t from 'tap'
import { sessionActions } from '../../../api/auth/policy.ts'
import { mediaActions } from '../../../api/features/media/policy.ts'
import { CATALOG } from '../../../api/features.ts'
import {
  allOf,
  anyOf,
  decide,
  explain,
  fact,
  factsOf,
  isOnRow,
  kind,
  on,
  onOrganization,
  saysOf,
} from '../../../api/permissions/rule.ts'

const me = 'me'
const rowOf = (by: string) => ({
  id: '1',
  uploaderId: by,
  ownerId: by,
  eventOwnerId: null,
  ownerIsMember: true,
  invitedBy: by,
  userId: by,
  authorId: by,
  createdBy: by,
  album: null,
  isInvitee: by === me,
  isPresented: false,
  isParticipant: by === me,
  isShownToGuest: by === me,
  role: 'member',
  status: 'active',
  deletedAt: null,
  deletedBy: null,
})
const mine = rowOf(me)
const theirs = rowOf('you')
const ROLES = ['owner', 'admin', 'member', null] as const

/**
 * Roles, `platform` for ROLE_ADMIN, `uploader` for the uploader, owner, author, creator or inviter of the row while a member, and `guest`
 * for the invitee of the row or the participant, member or not; `former owner` for one who owns it, takes part and is no member.
 */
const TABLE: Record<string, readonly (string | null)[]> = {
  'session.read': ['owner', 'admin', 'member', null],
  'session.end': ['owner', 'admin', 'member', null],
  'session.end_all': ['owner', 'admin', 'member', null],
  'user.read_self': ['owner', 'admin', 'member', null],
  'user.read_connections': ['owner', 'admin', 'member', null],
  'user.list_connected': ['owner', 'admin', 'member', null],
  'organization.read': ['owner', 'admin', 'member'],
  'organization.update': ['owner'],
  'member.list': ['owner', 'admin', 'member'],
  'member.change_role': ['owner', 'admin'],
  'member.remove': ['owner', 'admin', 'uploader'],
  'permission.explain': ['platform'],
  'audit.query': ['platform'],
  'audit.export': ['platform'],
  'account.erase': ['owner', 'admin', 'member', null],
  'account.erase_other': ['platform'],
  'album.create': ['owner', 'admin', 'member'],
  'album.list': ['owner', 'admin', 'member'],
  'album.list_all': ['owner', 'admin'],
  // Of an album for nobody; test/api/features/albums/policy.ts has the others.
  'album.read': ['owner', 'admin', 'uploader'],
  'album.update': ['owner', 'admin', 'uploader'],
  'album.delete': ['owner', 'admin', 'uploader'],
  'album.add_media': ['owner', 'admin', 'uploader'],
  // Of an owner who is a member, without an event.
  'album.set_status': ['uploader'],
  'event.create': ['owner', 'admin', 'member'],
  'event.list': ['owner', 'admin', 'member'],
  'event.list_own': ['owner', 'admin', 'member', null],
  'event.list_drafts': ['owner', 'admin'],
  'event.read': ['owner', 'admin', 'member', 'guest'],
  // Of the owner for nobody who is a member.
  'event.leave': ['former owner'],
  'event.remove_participant': ['owner', 'admin', 'uploader'],
  'event.update': ['owner', 'admin', 'uploader'],
  'event.activate': ['owner', 'admin', 'uploader'],
  'event.archive': ['owner', 'admin', 'uploader'],
  'event.delete': ['owner', 'admin', 'uploader'],
  'event.invite': ['owner', 'admin', 'uploader'],
  'event.list_invitations': ['owner', 'admin', 'uploader'],
  'event.export': ['owner', 'admin', 'uploader'],
  'comment.read': ['owner', 'admin', 'member', 'guest'],
  'comment.create': ['owner', 'admin', 'member', 'guest'],
  'comment.edit': ['guest'],
  'comment.delete': ['owner', 'admin', 'guest'],
  'reaction.add': ['owner', 'admin', 'member', 'guest'],
  'reaction.remove': ['guest'],
  'invitation.respond': ['guest'],
  'invitation.reissue': ['owner', 'admin', 'uploader'],
  'highlight.create': ['owner', 'admin', 'member'],
  'highlight.create_in_album': ['owner', 'admin', 'uploader'],
  'highlight.list': ['owner', 'admin', 'member'],
  'highlight.list_all': ['owner', 'admin'],
  // Of a highlight without an album; test/api/features/highlights/policy.ts has the others.
  'highlight.read': ['owner', 'admin', 'uploader'],
  'highlight.delete': ['owner', 'admin', 'uploader'],
  'music_track.list': ['owner', 'admin', 'member', null],
  'timeline.read': ['owner', 'admin', 'member'],
  'timeline.read_feed': ['owner', 'admin', 'member', null],
  'timeline.read_user': ['owner', 'admin', 'member', null],
  'feed.follow': ['owner', 'admin', 'member', null],
  'data_export.request': ['owner', 'admin', 'member', null],
  'data_export.read': ['owner', 'admin', 'member', null],
  'data_export.remove': ['owner', 'admin', 'member', null],
  'event_export.read': ['owner', 'admin', 'member', null],
  'event_export.remove': ['owner', 'admin', 'member', null],
  'notification.read_preferences': ['owner', 'admin', 'member', null],
  'notification.save_preferences': ['owner', 'admin', 'member', null],
  'notification.read_devices': ['owner', 'admin', 'member', null],
  'notification.save_devices': ['owner', 'admin', 'member', null],
  'media.upload': ['owner', 'admin', 'member'],
  'media.list': ['owner', 'admin', 'member'],
  'media.read': ['owner', 'admin', 'member', 'guest'],
  'media.read_location': ['owner', 'admin', 'uploader'],
  'media.delete': ['owner', 'admin', 'uploader'],
  'media.restore': ['owner', 'admin', 'uploader'],
  'media.list_trash': ['owner', 'admin', 'member'],
  'media.list_all_trash': ['owner', 'admin'],
  'upload.read': ['uploader'],
  'upload.send': ['uploader'],
  'upload.merge': ['uploader'],
  'upload.abort': ['uploader'],
}

t.test('the table has every action once', async (t) => {
  t.strictSame(CATALOG.actions.map(({ name }) => name).sort(), Object.keys(TABLE).sort())
})

for (const action of CATALOG.actions) {
  const allowedFor = TABLE[action.name] ?? []
  t.test(`${action.name} is allowed for those of the table and for no one else`, async (t) => {
    for (const role of ROLES) {
      for (const platformAdmin of [false, true]) {
        for (const row of [mine, theirs]) {
          const allowed =
            allowedFor.includes(role) ||
            (platformAdmin && allowedFor.includes('platform')) ||
            (role !== null && row === mine && allowedFor.includes('uploader')) ||
            (role === null && row === mine && allowedFor.includes('former owner')) ||
            (row === mine && allowedFor.includes('guest'))
          const reason = decide(action, { userId: me, role, platformAdmin }, row as never)
          t.equal(reason === 'allowed', allowed, `${role} ${platformAdmin} ${row.uploaderId}`)
        }
      }
    }
  })
}

const yes = fact('yes', 'those who say yes', () => true)
const no = fact('no', 'those who say no', () => false)
const asking = { userId: me, role: 'member' as const, platformAdmin: false }

t.test('the rows of every kind of resource can be found', async (t) => {
  const kinds = new Set(CATALOG.actions.filter(isOnRow).map(({ on }) => on))
  t.strictSame(Object.keys(CATALOG.rows).sort(), [...kinds].sort())
})

t.test('facts are joined by or and by and', async (t) => {
  const cases = [
    [anyOf(yes, no), true],
    [anyOf(no, no), false],
    [allOf(yes, no), false],
    [allOf(yes, anyOf(no, yes)), true],
    [anyOf(allOf(yes, no), no), false],
  ] as const
  for (const [rule, allowed] of cases) {
    t.equal(decide(onOrganization('x.y', 'x', rule), asking, undefined) === 'allowed', allowed, saysOf(rule))
  }
})

t.test('a rule says in words for whom it is', async (t) => {
  t.equal(saysOf(anyOf(yes, no)), 'those who say yes, or those who say no')
  t.equal(saysOf(allOf(yes, anyOf(no, yes))), 'those who say yes, and (those who say no, or those who say yes)')
  t.strictSame(
    factsOf(allOf(yes, anyOf(no, yes))).map((f) => f.name),
    ['yes', 'no'],
    'each fact once',
  )
})

t.test('without membership nothing is allowed in an organization, whatever the rule', async (t) => {
  const stranger = { userId: me, role: null, platformAdmin: true }
  t.equal(decide(onOrganization('x.y', 'x', yes), stranger, undefined), 'not_a_member')
  const onRow = on(kind<object>('media'), 'x.y', 'x', yes)
  t.equal(decide(onRow, stranger, mine), 'not_a_member')
})

t.test('an explanation names what it looked at, and the row that is not there', async (t) => {
  const rule = mediaActions.readLocation
  t.strictSame(explain(rule, asking, theirs), {
    reason: 'rule_not_met',
    facts: { role: 'member', uploader: false, organization_admin: false },
  })
  t.strictSame(explain(rule, { ...asking, role: 'admin' }, theirs), {
    reason: 'allowed',
    facts: { role: 'admin', uploader: false, organization_admin: true },
  })
  t.strictSame(explain(rule, asking, undefined), { reason: 'no_such_resource', facts: { role: 'member' } })
  t.strictSame(explain(rule, { ...asking, role: null }, undefined), { reason: 'not_a_member', facts: { role: null } })
  t.strictSame(explain(sessionActions.endAll, asking, undefined), {
    reason: 'allowed',
    facts: { role: 'member', signed_in: true },
  })
})
