import t from 'tap'
import { maskEmail, maskPhone } from '../../../../api/features/invitations/mask.ts'
import { invitationsToTell } from '../../../../api/features/invitations/plan.ts'
import { stateOf, whilePending, whileUnanswered } from '../../../../api/features/invitations/policy.ts'
import { newSlug, parseSlug } from '../../../../api/features/invitations/slug.ts'

t.test('a slug has eight characters that no one confuses', async (t) => {
  const slugs = Array.from({ length: 2000 }, newSlug)
  for (const slug of slugs) t.match(slug, /^[2-9ABCDEFGHJKMNPQRSTUVWXYZ]{8}$/)
  t.equal(new Set(slugs).size, slugs.length)
  t.equal(new Set(slugs.join('')).size, 31, 'every character occurs')
})

t.test('a slug is read in either case, and nothing else is a slug', async (t) => {
  t.equal(parseSlug('k7m2qx9a'), 'K7M2QX9A')
  t.equal(parseSlug('K7m2Qx9a'), 'K7M2QX9A')
  for (const confused of ['0', 'O', 'o', '1', 'I', 'i', 'L', 'l']) t.equal(parseSlug(`K7M2QX9${confused}`), undefined)
  for (const text of [
    '',
    'K7M2QX9',
    'K7M2QX9AA',
    'K7M2QX9 ',
    ' K7M2QX9A',
    'K7M2QX9A\n',
    'K7M2-X9A',
    'ßM2QX9A',
    'ſ7M2QX9A',
    '\u212a7M2QX9A',
  ]) {
    t.equal(parseSlug(text), undefined, JSON.stringify(text))
  }
})

t.test('addresses are masked', async (t) => {
  const emails = { 'ann@example.org': 'a***@example.org', 'a@b.c': 'a***@b.c', '"a@b"@c.d': '"***@c.d' }
  for (const [email, masked] of Object.entries(emails)) t.equal(maskEmail(email), masked)
  t.equal(maskPhone('+491701234567'), '+49********67')
  t.equal(maskPhone('+1234567'), '+12***67')
})

t.test('expired is what is pending and too old', async (t) => {
  t.equal(stateOf({ status: 'pending', isExpired: false }), 'pending')
  t.equal(stateOf({ status: 'pending', isExpired: true }), 'expired')
  for (const status of ['accepted', 'declined', 'revoked'] as const) {
    for (const isExpired of [true, false]) t.equal(stateOf({ status, isExpired }), status)
  }
})

t.test('only what is pending can be answered, and only what is unanswered reissued', async (t) => {
  const USED = { code: 'INVITATION_ALREADY_USED' }
  t.equal(whilePending({ status: 'pending', isExpired: false, isInvitee: false }), undefined)
  t.match(whilePending({ status: 'pending', isExpired: true, isInvitee: false }), { code: 'INVITATION_EXPIRED' })
  t.equal(
    whilePending({ status: 'pending', isExpired: true, isInvitee: true }),
    undefined,
    'a link expires, an invitation does not',
  )
  for (const isExpired of [true, false]) {
    t.match(whilePending({ status: 'accepted', isExpired, isInvitee: true }), USED)
    t.match(whilePending({ status: 'declined', isExpired, isInvitee: true }), USED)
  }
  t.equal(whileUnanswered({ status: 'pending' }), undefined)
  for (const status of ['accepted', 'declined', 'revoked'] as const) {
    t.match(whileUnanswered({ status }), { code: 'INVALID_STATE_TRANSITION' })
  }
})

t.test('a person who is invited twice is told once', async (t) => {
  const user = (userId: string) => ({ userId, email: null })
  const email = (address: string) => ({ userId: null, email: address })
  const phone = { userId: null, email: null }
  const emails = new Map([
    ['ann', 'ann@example.org'],
    ['ann2', 'ann@example.org'],
  ])
  const tell = (...[now, before = []]: [object[], object[]?]) =>
    invitationsToTell(now as ReturnType<typeof email>[], before as ReturnType<typeof email>[], emails)
  t.strictSame(tell([email('ann@example.org'), user('ann')]), [user('ann')], 'as a user')
  t.strictSame(tell([email('bob@example.org'), user('ann')]), [user('ann'), email('bob@example.org')])
  t.strictSame(tell([user('bob'), email('ann@example.org')]), [user('bob'), email('ann@example.org')], 'not known')
  t.strictSame(tell([email('ann@example.org')], [user('ann')]), [], 'told before, as a user')
  t.strictSame(tell([user('ann')], [email('ann@example.org')]), [], 'told before, by address')
  t.strictSame(tell([user('ann')], [user('ann')]), [], 'told before')
  t.strictSame(tell([phone, phone]), [phone, phone], 'whose number it is, is not known')
  t.strictSame(tell([user('ann'), user('ann2')]), [user('ann')], 'two accounts with one address')
})
