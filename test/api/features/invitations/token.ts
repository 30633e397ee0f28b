import { createHmac, generateKeyPairSync, hkdfSync, randomBytes } from 'node:crypto'
import { SignJWT } from 'jose'
import t from 'tap'
import { invitationTokens } from '../../../../api/features/invitations/token.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'

const key = () => randomBytes(32).toString('base64url')
const keys = { a: key(), b: key() }
const ring = { current: 'a', keys }
const tokens = invitationTokens(ring)
const content = { id: newUuid(), generation: 3, expires: Math.floor(Date.now() / 1000) + 3600 }

const decoded = (part = '') => JSON.parse(Buffer.from(part, 'base64url').toString())
const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
/** Signed as this server would, whatever it says. */
const derived = (kid: 'a' | 'b') =>
  Buffer.from(hkdfSync('sha256', Buffer.from(keys[kid], 'base64url'), '', 'keepsake-invitation', 32))
const HEADER = { alg: 'HS256', typ: 'invitation+jwt', kid: 'a' }
const CLAIMS = { gen: 3, sub: content.id, aud: 'keepsake-invitation', exp: content.expires }
const signed = (header: object, claims: object, secret = derived('a'), digest = 'sha256') =>
  signedText(encoded(header), encoded(claims), secret, digest)
const signedText = (header: string, claims: string, secret = derived('a'), digest = 'sha256') => {
  const text = `${header}.${claims}`
  return `${text}.${createHmac(digest, secret).update(text).digest('base64url')}`
}

t.test('a token says no more than needed, and the same row makes the same token', async (t) => {
  const token = await tokens.mint(content)
  const [header, payload] = token.split('.').map((part, n) => (n < 2 ? decoded(part) : part))
  t.strictSame(header, HEADER)
  t.strictSame(payload, CLAIMS)
  t.equal(await tokens.mint({ ...content }), token)
  t.equal(await invitationTokens(ring).mint(content), token, 'on another replica too')
  t.strictSame(await tokens.read(token), content)
  t.equal(signed(HEADER, CLAIMS), token, 'the forgeries of this file differ in what they mean to')
})

t.test('the clock of this process does not matter', async (t) => {
  const old = { ...content, expires: 1_000_000 }
  t.strictSame(await tokens.read(await tokens.mint(old)), old)
})

t.test('both keys verify, and one that was removed does not', async (t) => {
  const token = await tokens.mint(content)
  const rotated = invitationTokens({ current: 'b', keys })
  t.strictSame(await rotated.read(token), content)
  t.not(await rotated.mint(content), token)
  t.strictSame(await tokens.read(await rotated.mint(content)), content, 'a replica with the previous settings')
  t.equal(await invitationTokens({ current: 'b', keys: { b: keys.b } }).read(token), undefined)
})

t.test('nothing else is a token', async (t) => {
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const publicPem = rsa.publicKey.export({ type: 'spki', format: 'pem' }) as string
  const real = await tokens.mint(content)
  const [h = '', p = '', s = ''] = real.split('.')
  const forged: Record<string, string> = {
    nothing: '',
    nonsense: 'nonsense',
    'three dots': '...',
    'no signature': `${h}.${p}.`,
    'no algorithm': `${encoded({ ...HEADER, alg: 'none' })}.${p}.`,
    'no algorithm, in other words': `${encoded({ ...HEADER, alg: 'NonE' })}.${p}.${s}`,
    'another HMAC': signed({ ...HEADER, alg: 'HS512' }, CLAIMS, derived('a'), 'sha512'),
    'RS256 by a key of the forger': await new SignJWT(CLAIMS)
      .setProtectedHeader({ ...HEADER, alg: 'RS256' })
      .sign(rsa.privateKey),
    'HS256 with a public key as the secret': signed(HEADER, CLAIMS, Buffer.from(publicPem)),
    'the delivery key itself': signed(HEADER, CLAIMS, Buffer.from(keys.a, 'base64url')),
    'the delivery key as text': signed(HEADER, CLAIMS, Buffer.from(keys.a)),
    'an empty key': signed(HEADER, CLAIMS, Buffer.alloc(0)),
    'the key of another kid': signed(HEADER, CLAIMS, derived('b')),
    'no kid': signed({ alg: 'HS256', typ: HEADER.typ }, CLAIMS),
    'an unknown kid': signed({ ...HEADER, kid: 'z' }, CLAIMS),
    'a kid of every object': signed({ ...HEADER, kid: '__proto__' }, CLAIMS),
    'a key in the header': signed({ ...HEADER, kid: 'z', jwk: { kty: 'oct', k: encoded('x') } }, CLAIMS),
    'another purpose': signed(HEADER, { ...CLAIMS, aud: 'keepsake' }),
    'no purpose': signed(HEADER, { ...CLAIMS, aud: undefined }),
    'another type': signed({ ...HEADER, typ: 'at+jwt' }, CLAIMS),
    'no type': signed({ ...HEADER, typ: undefined }, CLAIMS),
    'a critical extension': signed({ ...HEADER, crit: ['exp'], exp: 1 }, CLAIMS),
    'no expiry': signed(HEADER, { ...CLAIMS, exp: undefined }),
    'an expiry that is text': signed(HEADER, { ...CLAIMS, exp: String(CLAIMS.exp) }),
    'no generation': signed(HEADER, { ...CLAIMS, gen: undefined }),
    'a generation that is text': signed(HEADER, { ...CLAIMS, gen: '3' }),
    'a fraction of a generation': signed(HEADER, { ...CLAIMS, gen: 2.5 }),
    'no invitation': signed(HEADER, { ...CLAIMS, sub: undefined }),
    'an invitation that is no id': signed(HEADER, { ...CLAIMS, sub: 'x' }),
    'other claims under the signature': `${h}.${encoded({ ...CLAIMS, gen: 4 })}.${s}`,
    'one that was cut': real.slice(0, -1),
    'one that grew': `${real}A`,
    'a payload that is a list': signed(HEADER, []),
    'a payload that is no JSON': signedText(h, Buffer.from('{').toString('base64url')),
    'an expiry that is a fraction': signed(HEADER, { ...CLAIMS, exp: CLAIMS.exp + 0.5 }),
    'an expiry before 1970': signed(HEADER, { ...CLAIMS, exp: -1 }),
    'an expiry beyond all numbers': signed(HEADER, { ...CLAIMS, exp: 1e300 }),
    'the generation before the first': signed(HEADER, { ...CLAIMS, gen: 0 }),
    'a generation beyond all numbers': signed(HEADER, { ...CLAIMS, gen: 2 ** 53 }),
    'a purpose that contains this one': signed(HEADER, { ...CLAIMS, aud: 'keepsake-invitations' }),
    'two dots': `${h}..${s}`,
    'four dots': `${real}.${p}.${s}`,
    'a JWE': `${encoded({ ...HEADER, alg: 'dir', enc: 'A256GCM' })}..${p}.${p}.${s}`,
    'dots of another script': real.replaceAll('.', '\uff0e'),
    'a padded signature': `${real}=`,
    'a signature in plain base64': `${h}.${p}.${Buffer.from(s, 'base64url').toString('base64')}`,
    'a megabyte': `${h}.${'A'.repeat(1_000_000)}.${s}`,
    'spaces around it': ` ${real} `,
  }
  for (const alg of ['NONE', 'None', 'hs256', 'HS384', 'RS256', 'RS384', 'PS256', 'ES256', 'EdDSA', 'dir', '', null]) {
    forged[`the algorithm ${alg}`] = signed({ ...HEADER, alg }, CLAIMS)
  }
  for (const kid of ['../a', 'a\0', "' or 1=1 --", 'https://example.org/key', 'constructor', '', 7, ['a'], null]) {
    forged[`the kid ${JSON.stringify(kid)}`] = signed({ ...HEADER, kid }, CLAIMS)
  }
  for (const from of ['jku', 'x5u', 'x5c', 'jwk']) {
    forged[`a key from ${from}`] = signed({ ...HEADER, [from]: 'https://example.org' }, CLAIMS, Buffer.from('own'))
  }
  for (const [what, token] of Object.entries(forged)) t.equal(await tokens.read(token), undefined, what)
})
