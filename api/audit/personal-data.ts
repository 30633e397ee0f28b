import { createCipheriv, createDecipheriv, createHmac, createSecretKey, type KeyObject, randomBytes } from 'node:crypto'
import { countedAddress } from '../../lib/contract/counted-address.ts'
import type { Uuid } from '../../lib/contract/ids.ts'
import type { Database } from '../db/db.ts'
import { findKey, findKeys, type KeyRow, keepKey } from './key-queries.ts'
import type { MasterKeys } from './master-keys.ts'

/** What an entry says about a person beyond ids. */
export interface Personal {
  ipAddress?: string
  userAgent?: string
  /** Names of people, and the like, by what they are: `device_name`. */
  details?: Readonly<Record<string, string>>
}

/** Personal data under the key of its person. */
export interface Box {
  personal: Buffer
  keyVersion: number
  addressIndex: Buffer | null
}

/** An entry, as far as its box depends on it: a box cannot be opened in another entry or for another person. */
export interface BoxOf {
  entryId: Uuid
  /** Null without a signed-in user. */
  personId: Uuid | null
}

/** `erased`: the person's keys were shredded. `damaged`: not what was written. `none`: the entry has none. */
export type Opened = { state: 'open'; personal: Personal } | { state: 'erased' | 'damaged' | 'none' }

export interface PersonalData {
  /**
   * Encrypts at once when the key is at hand, so that the caller can send its query in the same tick. Undefined for a
   * person whose keys were shredded: nothing about them is kept.
   */
  encrypt(of: BoxOf, personal: Personal): Box | undefined | Promise<Box | undefined>
  /** Decrypts a page of entries with one query at most. */
  decrypt(boxes: readonly (BoxOf & StoredBox)[]): Promise<Opened[]>
  /** What `addressIndex` holds for this address in entries of these months (`YYYYMM`, UTC). */
  addressIndexes(address: string, months: readonly number[]): Promise<Buffer[]>
  /** Forgets the keys of a person, or of all: on the notification `audit_keys`. */
  forget(personId?: string): void
}

/** The columns of an entry that hold its box. */
interface StoredBox {
  personal: Buffer | null
  keyVersion: number | null
}

export interface PersonalDataOptions {
  db: Pick<Database, 'aside'>
  masters: MasterKeys
  /** A key that is known is read again after this time, so that one that was shredded is gone everywhere. */
  cacheMs?: number
  /** Maximum number of keys in memory. */
  most?: number
}

/** Stands for all who are not signed in. Its keys change every month, those of people every year. */
export const UNKNOWN: Uuid = '00000000-0000-0000-0000-000000000000'
/** Its keys index addresses. They change every month: an index links the actions from an address no longer than that. */
const ADDRESSES: Uuid = 'ffffffff-ffff-ffff-ffff-ffffffffffff'

export const monthOf = (date: Date) => date.getUTCFullYear() * 100 + date.getUTCMonth() + 1

const versionOf = (personId: Uuid, now: Date) =>
  personId === UNKNOWN || personId === ADDRESSES ? monthOf(now) : now.getUTCFullYear()

/** Null: there is no key, for good. */
type Key = KeyObject | null

export function openPersonalData(o: PersonalDataOptions): PersonalData {
  const { db, masters, cacheMs = 60_000, most = 10_000 } = o
  // A Map keeps the order of insertion: the first entry is the oldest.
  const known = new Map<string, { key: Key; until: number }>()
  const asked = new Map<string, Promise<Key>>()
  let forgotten = 0

  const nameOf = (personId: Uuid, version: number) => `${personId} ${version}`

  function atHand(personId: Uuid, version: number): Key | undefined {
    const name = nameOf(personId, version)
    const hit = known.get(name)
    if (hit && performance.now() < hit.until) return hit.key
    known.delete(name)
    return undefined
  }

  function remember(personId: Uuid, version: number, key: Key): void {
    const oldest = known.size >= most ? known.keys().next().value : undefined
    if (oldest !== undefined) known.delete(oldest)
    known.set(nameOf(personId, version), { key, until: performance.now() + cacheMs })
  }

  const unwrapped = async (row: KeyRow) => createSecretKey(await masters.unwrap(row))

  /** Commits a new key before anything is encrypted with it: an entry must not outlive the only copy of its key. */
  async function fetchKey(personId: Uuid, version: number): Promise<Key> {
    const before = forgotten
    let found = await db.aside((tx) => findKey(tx, personId, version))
    if (!found) {
      const made = { personId, version, ...(await masters.wrap(randomBytes(32))) }
      found = await db.aside(async (tx) => ((await keepKey(tx, made)) ? findKey(tx, personId, version) : 'shredded'))
    }
    const key = found === undefined || found === 'shredded' ? null : await unwrapped(found)
    // A person whose keys were shredded in the meantime must not be remembered with one.
    if (key && before === forgotten) remember(personId, version, key)
    return key
  }

  function ask(personId: Uuid, version: number): Promise<Key> {
    const name = nameOf(personId, version)
    const pending = asked.get(name) ?? fetchKey(personId, version).finally(() => asked.delete(name))
    asked.set(name, pending)
    return pending
  }

  function encryptWith(
    of: BoxOf,
    version: number,
    personal: Personal,
    keys: { own: Key; index: Key },
  ): Box | undefined {
    if (!keys.own) return undefined
    const { ipAddress } = personal
    return {
      personal: encrypt(keys.own, boundTo(of, version), encode(personal)),
      keyVersion: version,
      addressIndex: ipAddress !== undefined && keys.index ? indexOf(keys.index, ipAddress) : null,
    }
  }

  /** By name. What is not at hand is one query. */
  async function keysOf(boxes: readonly { personId: Uuid; keyVersion: number | null }[]) {
    const keys = new Map<string, KeyObject>()
    const missing = new Map<string, { personId: Uuid; version: number }>()
    for (const { personId, keyVersion: version } of boxes) {
      if (version === null) continue
      const key = atHand(personId, version)
      if (key) keys.set(nameOf(personId, version), key)
      else missing.set(nameOf(personId, version), { personId, version })
    }
    if (missing.size === 0) return keys
    const before = forgotten
    for (const row of await db.aside((tx) => findKeys(tx, [...missing.values()]))) {
      const key = await unwrapped(row)
      keys.set(nameOf(row.personId, row.version), key)
      if (before === forgotten) remember(row.personId, row.version, key)
    }
    return keys
  }

  return {
    encrypt(of, personal) {
      const now = new Date()
      const personId = of.personId ?? UNKNOWN
      const [version, month] = [versionOf(personId, now), monthOf(now)]
      const own = atHand(personId, version)
      const index = personal.ipAddress === undefined ? null : atHand(ADDRESSES, month)
      if (own !== undefined && index !== undefined) return encryptWith(of, version, personal, { own, index })
      return Promise.all([
        own ?? ask(personId, version),
        index ?? (index === null ? null : ask(ADDRESSES, month)),
      ]).then(([own, index]) => encryptWith(of, version, personal, { own, index }))
    },

    async decrypt(boxes) {
      const whole = boxes.map((box) => ({ ...box, personId: box.personId ?? UNKNOWN }))
      const keys = await keysOf(whole)
      return whole.map(({ personal, keyVersion: version, ...of }): Opened => {
        if (personal === null || version === null) return { state: 'none' }
        const key = keys.get(nameOf(of.personId, version))
        return key ? opened(key, boundTo(of, version), personal) : { state: 'erased' }
      })
    },

    async addressIndexes(address, months) {
      const rows = await db.aside((tx) =>
        findKeys(
          tx,
          months.map((version) => ({ personId: ADDRESSES, version })),
        ),
      )
      return Promise.all(rows.map(async (row) => indexOf(await unwrapped(row), address)))
    },

    forget(personId) {
      forgotten += 1
      if (personId === undefined) return known.clear()
      for (const name of known.keys()) if (name.startsWith(personId)) known.delete(name)
    },
  }
}

function opened(key: KeyObject, bound: Buffer, box: Buffer): Opened {
  try {
    return { state: 'open', personal: decode(decrypt(key, bound, box)) }
  } catch {
    return { state: 'damaged' }
  }
}

const NONCE_BYTES = 12
const TAG_BYTES = 16

function encrypt(key: KeyObject, bound: Buffer, text: Buffer): Buffer {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(bound)
  return Buffer.concat([nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()])
}

function decrypt(key: KeyObject, bound: Buffer, box: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, box.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
  decipher.setAAD(bound).setAuthTag(box.subarray(-TAG_BYTES))
  return Buffer.concat([decipher.update(box.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
}

/** The additional data of the encryption. */
function boundTo({ entryId, personId }: BoxOf, version: number): Buffer {
  const bound = Buffer.alloc(36)
  bound.write(entryId.replaceAll('-', ''), 0, 'hex')
  bound.write((personId ?? UNKNOWN).replaceAll('-', ''), 16, 'hex')
  bound.writeInt32BE(version, 32)
  return bound
}

const encode = ({ ipAddress, userAgent, details }: Personal) =>
  Buffer.from(JSON.stringify({ ip: ipAddress, ua: userAgent, details }))

function decode(text: Buffer): Personal {
  const { ip, ua, details } = JSON.parse(text.toString())
  return { ...(ip && { ipAddress: ip }), ...(ua && { userAgent: ua }), ...(details && { details }) }
}

const indexOf = (key: KeyObject, address: string): Buffer =>
  createHmac('sha256', key).update(countedAddress(address)).digest().subarray(0, 16)
