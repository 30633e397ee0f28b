import t from 'tap'
import {
  isEnded,
  paddingOf,
  type RecordedSignIn,
  type SignOuts,
  signInOf,
  stateOfRefreshToken,
  type TokenAge,
} from '../../../api/auth/policy.ts'

const OUT = 1000
const never: SignOuts = { notBefore: Number.NEGATIVE_INFINITY, signIn: null }
const recorded = (since: number, more: Partial<RecordedSignIn> = {}): RecordedSignIn => ({
  ...{ since, authTime: null, isWitnessed: false, endedAt: null, endedAuthTime: null, sparedUntil: null },
  ...more,
})
const signedOut = (since: number | null, more: Partial<RecordedSignIn> = {}): SignOuts => ({
  notBefore: OUT,
  signIn: since === null ? null : recorded(since, more),
})
/** Revoked by itself. */
const revoked = (since: number, more: Partial<RecordedSignIn> = {}): SignOuts => ({
  ...never,
  signIn: recorded(since, { endedAt: OUT, ...more }),
})
const at = (authTime: number | undefined, issuedAt = authTime ?? 0): TokenAge => ({ authTime, issuedAt })

const TABLE: [name: string, token: TokenAge, known: SignOuts, ended: boolean][] = [
  ['any token of a user who never signed out', at(undefined, 1), never, false],
  ['a sign-in before the sign-out', at(999), signedOut(null), true],
  ['a sign-in before the sign-out, refreshed since', at(999, 2000), signedOut(null), true],
  ['a sign-in after the sign-out', at(1001), signedOut(null), false],
  ['a sign-in in the second of the sign-out', at(1000), { ...signedOut(null), notBefore: 1000.5 }, true],
  ['a token that says nothing, issued before', at(undefined, 999), signedOut(null), true],
  ['a token that says nothing, issued after', at(undefined, 1001), signedOut(null), false],
  ['a token of a session seen before, issued after', at(undefined, 1001), signedOut(999), true],
  ['a token of a session seen after, issued after', at(undefined, 1001), signedOut(1001), false],
  ['a token of a session seen after, issued before', at(undefined, 999), signedOut(1001), true],
  ['a sign-in seen before, by a clock that is ahead', at(1010), signedOut(999, { authTime: 1010 }), true],
  ['the same, refreshed since', at(1010, 2000), signedOut(999, { authTime: 1010 }), true],
  ['a sign-in seen after, by a clock that is ahead', at(1010), signedOut(1001, { authTime: 1010 }), false],
  ['the password was asked for again under the same name', at(1010), signedOut(900, { authTime: 900 }), false],
  [
    'a sign-in that this server saw, by a clock that is behind',
    at(980),
    signedOut(1000.2, { authTime: 980, isWitnessed: true }),
    false,
  ],
  ['an older one under its name', at(970), signedOut(1000.2, { authTime: 980, isWitnessed: true }), true],
  ['the session that signed out all others', at(900), signedOut(900, { authTime: 900, sparedUntil: OUT }), false],
  ['the same after a later sign-out', at(900), signedOut(900, { authTime: 900, sparedUntil: 999 }), true],
  ['a revoked session', at(undefined, 900), revoked(900), true],
  ['a revoked session, refreshed since', at(undefined, 2000), revoked(900), true],
  ['a revoked session that says when it began', at(900), revoked(900, { authTime: 900, endedAuthTime: 900 }), true],
  [
    'a revoked session that began later by a clock that is ahead',
    at(1010),
    revoked(990, { authTime: 1010, endedAuthTime: 1010 }),
    true,
  ],
  [
    'the password was asked for after a revocation',
    at(1001),
    revoked(900, { authTime: 900, endedAuthTime: 900 }),
    false,
  ],
  ['the same, recorded', at(1001), revoked(1001, { authTime: 1001, endedAuthTime: 900 }), false],
  ['a token that does not say which of the two', at(undefined, 2000), revoked(1001, { authTime: 1001 }), true],
  ['the revoked sign-in before it', at(900), revoked(1001, { authTime: 1001, endedAuthTime: 900 }), true],
]
for (const [name, token, known, ended] of TABLE) {
  t.test(`${name}: ${ended ? 'over' : 'goes on'}`, async (t) => t.equal(isEnded(token, known), ended))
}

t.test('a sign-in is named by sid, then by origin_jti, then by its time', async (t) => {
  const all = { sid: 's', originJti: 'o', authTime: 7 }
  t.equal(signInOf(all), 's')
  t.equal(signInOf({ ...all, sid: null }), 'origin_jti o')
  t.equal(signInOf({ ...all, sid: null, originJti: null }), 'auth_time 7')
  t.equal(signInOf({ sid: null, originJti: null, authTime: undefined }), null)
})

t.test('a refresh token is used once, answered again for 90 seconds, and reused after that', async (t) => {
  const states: [Parameters<typeof stateOfRefreshToken>[0], string][] = [
    [undefined, 'new'],
    [{ refreshingUntil: null, usedAt: null }, 'new'],
    [{ refreshingUntil: 1001, usedAt: null }, 'refreshing'],
    [{ refreshingUntil: 1000, usedAt: null }, 'new'],
    [{ refreshingUntil: null, usedAt: 910 }, 'answered'],
    [{ refreshingUntil: null, usedAt: 909.9 }, 'reused'],
  ]
  for (const [known, state] of states) t.equal(stateOfRefreshToken(known, 1000), state)
})

t.test('a refused sign-in takes a second, however soon the provider refuses it', async (t) => {
  for (const [passed, rest] of [
    [0, 1000],
    [5, 995],
    [260, 740],
    [999, 1],
    [1000, 0],
    [1300, 0],
  ] as const) {
    t.equal(paddingOf(passed), rest)
  }
})
