import t from 'tap'
import { isEnded, isRecorded, type SignOuts, signInOf, type TokenAge } from '../../../api/auth/policy.ts'

const OUT = 1000
const never: SignOuts = { notBefore: Number.NEGATIVE_INFINITY, sessionSince: null }
const signedOut = (sessionSince: number | null): SignOuts => ({ notBefore: OUT, sessionSince })

const TABLE: [name: string, token: TokenAge, known: SignOuts, ended: boolean][] = [
  ['any token of a user who never signed out', { authTime: undefined, issuedAt: 1 }, never, false],
  ['a sign-in before the sign-out', { authTime: 999, issuedAt: 999 }, signedOut(null), true],
  ['a sign-in before the sign-out, refreshed since', { authTime: 999, issuedAt: 2000 }, signedOut(null), true],
  ['a sign-in after the sign-out', { authTime: 1001, issuedAt: 1001 }, signedOut(null), false],
  [
    'a sign-in in the second of the sign-out',
    { authTime: 1000, issuedAt: 1000 },
    { ...signedOut(null), notBefore: 1000.5 },
    true,
  ],
  ['a token that says nothing, issued before', { authTime: undefined, issuedAt: 999 }, signedOut(null), true],
  ['a token that says nothing, issued after', { authTime: undefined, issuedAt: 1001 }, signedOut(null), false],
  ['a token of a session seen before, issued after', { authTime: undefined, issuedAt: 1001 }, signedOut(999), true],
  ['a token of a session seen after, issued after', { authTime: undefined, issuedAt: 1001 }, signedOut(1001), false],
  ['a token of a session seen after, issued before', { authTime: undefined, issuedAt: 999 }, signedOut(1001), true],
  [
    'a sign-in seen before, dated after by a clock that is ahead',
    { authTime: 1010, issuedAt: 1010 },
    signedOut(999),
    true,
  ],
  ['the same, refreshed since', { authTime: 1010, issuedAt: 2000 }, signedOut(999), true],
  ['a sign-in seen after, dated by a clock that is ahead', { authTime: 1010, issuedAt: 1010 }, signedOut(1001), false],
]
for (const [name, token, known, ended] of TABLE) {
  t.test(`${name}: ${ended ? 'over' : 'goes on'}`, async (t) => t.equal(isEnded(token, known), ended))
}

t.test('a sign-in is recorded by its time, or else by its session', async (t) => {
  const [says, silent] = [{ authTime: 1010 }, { authTime: undefined }]
  t.not(signInOf(says, 'sid'), signInOf({ authTime: 1011 }, 'sid'), 'the password was asked for again')
  t.equal(signInOf(says, 'sid'), signInOf(says, null), 'an access token may lack the sid of the ID token')
  t.equal(signInOf(silent, 'sid'), 'sid')
  t.equal(signInOf(silent, null), null)
  t.strictSame(
    [isRecorded(says, null, 1009.9), isRecorded(says, 'sid', 1010), isRecorded(silent, 'sid', 0)],
    [true, false, true],
    'a time that has passed needs no record',
  )
  t.notOk(isRecorded(silent, null, 0), 'nothing names it')
})
