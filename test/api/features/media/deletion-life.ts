import { randomBytes, randomUUID } from 'node:crypto'
import fc from 'fast-check'
import t from 'tap'
import { retryMedia } from '../../../../api/features/media/commands.ts'
import { CONVERSIONS } from '../../../../api/features/media/conversion/kind.ts'
import { purgeDue, sweepPurged } from '../../../../api/features/media/deletion/purge.ts'
import { completeRun, failRun } from '../../../../api/worker/runs/commands.ts'
import { findRun } from '../../../../api/worker/runs/queries.ts'
import type { Uuid } from '../../../../lib/contract/ids.ts'
import { manifestKey, masterKey, mediaPrefix, outputPrefix } from '../../../../lib/contract/object-keys.ts'
import { Problem } from '../../../../lib/contract/problem.ts'
import { fakeMp4, formOf, type Person, pathOf, startTestApi, uuidOf } from '../../../support/api.ts'
import { aManifest, anImageManifest, NAMESPACE, testCluster } from '../../../support/conversion-world.ts'
import { quietLog } from '../../../support/quiet-log.ts'

/** The life of media items as a state machine: any sequence of steps against the API and the functions of the worker. */
const api = await startTestApi(t)
const { people, org, call, database, store } = api
const { admin, worker } = database
const orgId = uuidOf('organization', org)
const deps = { db: worker, store, cluster: testCluster(t), namespace: NAMESPACE, log: quietLog() }
const BYTES = 1000

interface Item {
  id: string
  uuid: Uuid
  /** Paths of its links, while it was visible. */
  links: string[]
  status: 'processing' | 'completed' | 'failed'
  deletion: 'visible' | 'in-trash' | 'lost' | 'gone'
  deletedBy: Person | undefined
  deletions: number
  kind: Kind
  /** What its `live_photo_pair_id` is, until it gives it up. */
  pair: string | undefined
  counterpart: Item | undefined
}
type Kind = 'image' | 'video'
interface Model {
  items: Item[]
}
/** A Live Photo as a whole. */
const wholeOf = (item: Item) => (item.counterpart ? [item, item.counterpart] : [item])
const PAIRS = [randomUUID(), randomUUID()]
const visible = (items: readonly Item[]) => items.filter((item) => item.deletion === 'visible')

/** What the server does with the pair id of a media item that has just become visible. */
function expectPairing(item: Item, items: readonly Item[]) {
  if (!item.pair || item.counterpart) return
  const counterpart = visible(items).find((o) => o.pair === item.pair && o.kind !== item.kind && !o.counterpart)
  if (!counterpart) return
  item.counterpart = counterpart
  counterpart.counterpart = item
}
const isTaken = (item: Item, items: readonly Item[]) =>
  item.pair !== undefined && visible(items).some((o) => o.pair === item.pair && o.kind === item.kind)
type Who = 'member' | 'admin' | 'another'

const conversionOf = (item: Item) => worker.read({}, (tx) => findRun(tx, CONVERSIONS, item.uuid))

const STEPS: Record<string, (item: Item, who: Person, items: readonly Item[]) => Promise<void>> = {
  async complete(item) {
    const seen = await conversionOf(item)
    t.equal(seen === undefined, item.deletion !== 'visible')
    if (!seen) return
    const prefix = outputPrefix(orgId, item.uuid, seen.generation)
    for (const key of [masterKey(prefix), manifestKey(prefix)]) await store.put(key, 'x', { contentType: 'text/plain' })
    const manifest = item.kind === 'image' ? anImageManifest(item.uuid) : aManifest(item.uuid)
    const done = await completeRun(worker, CONVERSIONS, seen, { prefix, manifest })
    t.equal(done, item.status === 'processing')
    if (done) item.status = 'completed'
  },
  async fail(item) {
    const seen = await conversionOf(item)
    if (!seen) return
    const done = await failRun(worker, CONVERSIONS, seen, { code: 'TIMEOUT', message: 'too slow' })
    t.equal(done, item.status === 'processing')
    if (done) item.status = 'failed'
  },
  async retry(item) {
    const done = await retryMedia(worker, item.uuid).catch((error: unknown) => {
      if (error instanceof Problem) return undefined
      throw error
    })
    const failed = item.deletion === 'visible' ? wholeOf(item).filter(({ status }) => status === 'failed') : []
    t.strictSame(new Set(done?.map(({ id }) => id)), new Set(failed.map(({ uuid }) => uuid)))
    for (const one of failed) one.status = 'processing'
  },
  async delete(item, who) {
    const { status } = await call(who, 'DELETE', `/api/media/${org}/${item.id}`)
    const mayDelete = who !== people.another && (item.deletion === 'visible' || item.deletion === 'in-trash')
    t.equal(status, mayDelete ? 204 : 404)
    if (!mayDelete || item.deletion === 'in-trash') return
    for (const one of wholeOf(item))
      Object.assign(one, { deletion: 'in-trash', deletedBy: who, deletions: one.deletions + 1 })
  },
  async restore(item, who, items) {
    const { status } = await call(who, 'POST', `/api/media/${org}/${item.id}/restore`)
    const isEntitled = who === people.admin || who === (item.deletedBy ?? people.member)
    const wanted = { visible: 200, 'in-trash': 200, lost: 422, gone: 404 }[item.deletion]
    t.equal(status, isEntitled ? wanted : 404)
    if (status !== 200 || item.deletion === 'visible') return
    const whole = wholeOf(item)
    const givesUp = whole.some((one) => isTaken(one, items))
    for (const one of whole) Object.assign(one, { deletion: 'visible', deletedBy: undefined })
    if (givesUp) for (const one of whole) one.pair = undefined
    expectPairing(item, items)
  },
  async age(item) {
    await admin.query(
      `update media set deleted_at = deleted_at - interval '31 days' where id = $1 or paired_media_id = $1`,
      [item.uuid],
    )
    for (const one of wholeOf(item)) if (one.deletion === 'in-trash') one.deletion = 'lost'
  },
}

const fakeJpeg = () => Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), randomBytes(BYTES - 4)])

class Upload implements fc.AsyncCommand<Model, object> {
  readonly kind: Kind
  readonly pair: string | undefined
  constructor(kind: Kind, pair: string | undefined) {
    this.kind = kind
    this.pair = pair
  }
  check = ({ items }: Model) => items.length < 5
  async run({ items }: Model) {
    const { kind, pair } = this
    const path = `/api/media/${org}/single`
    const bytes = kind === 'image' ? fakeJpeg() : fakeMp4(BYTES)
    const { status, data } = await call(people.member, 'POST', path, {
      form: formOf(bytes, 'a', pair ? { live_photo_pair_id: pair } : {}),
    })
    const given = { kind, pair, counterpart: undefined }
    const isRefused = isTaken(given as Item, items)
    t.equal(status, isRefused ? 409 : 201)
    if (isRefused) return
    const id: string = data.media_id
    const shown = await call(people.member, 'GET', `/api/media/${org}/${id}`)
    const links = [pathOf(shown.data.original_url)]
    const uuid = uuidOf('media', id)
    const life = { status: 'processing', deletion: 'visible', deletedBy: undefined, deletions: 0 } as const
    const item: Item = { id, uuid, links, ...life, ...given }
    items.push(item)
    expectPairing(item, items)
    await checkAll(items)
  }
  toString = () => `upload(${this.kind}, ${this.pair})`
}

class Purge implements fc.AsyncCommand<Model, object> {
  check = () => true
  async run({ items }: Model) {
    await purgeDue(deps)
    for (const item of items) if (item.deletion === 'lost') item.deletion = 'gone'
    await admin.query('update purged_media set next_look_at = now()')
    t.equal(await sweepPurged(deps), 0)
    await checkAll(items)
  }
  toString = () => 'purge'
}

class Step implements fc.AsyncCommand<Model, object> {
  readonly step: string
  readonly which: number
  readonly who: Who
  constructor(step: string, which: number, who: Who) {
    this.step = step
    this.which = which
    this.who = who
  }
  check = ({ items }: Model) => items.length > 0
  async run({ items }: Model) {
    const item = items[this.which % items.length] as Item
    await STEPS[this.step]?.(item, people[this.who], items)
    await checkAll(items)
  }
  toString = () => `${this.step}(${this.which}, ${this.who})`
}

async function checkAll(items: readonly Item[]) {
  for (const item of items) await check(item)
  const { rows } = await admin.query('select media_bytes::int as n from user_storage where user_id = $1', [
    people.member.id,
  ])
  t.equal(rows[0]?.n ?? 0, BYTES * items.filter((item) => item.deletion !== 'gone').length, 'the quota is right')
  const { data } = await call(people.admin, 'GET', `/api/media/${org}?limit=100`)
  const listed = data.media.map((media: { media_id: string }) => media.media_id)
  const shown = ({ kind, counterpart }: Item) => kind === 'image' || !counterpart
  const seen = visible(items).filter(shown)
  t.strictSame(new Set(listed), new Set(seen.map(({ id }) => id)), 'the list is right')
  const trash = await call(people.admin, 'GET', `/api/media/${org}/trash?limit=100`)
  const trashed = trash.data.media.map((media: { media_id: string }) => media.media_id)
  const wanted = items.filter((item) => item.deletion === 'in-trash' && shown(item)).map(({ id }) => id)
  t.strictSame(new Set(trashed), new Set(wanted), 'the trash is right')
}

async function check(item: Item) {
  const { rows } = await admin.query('select * from media where id = $1', [item.uuid])
  t.equal(rows.length, item.deletion === 'gone' ? 0 : 1)
  if (rows[0]) {
    t.equal(rows[0].upload_status, item.status)
    t.equal(rows[0].paired_media_id, item.counterpart?.uuid ?? null, 'the counterpart is right')
  }
  const keys = await api.keys(mediaPrefix(orgId, item.uuid))
  t.equal(keys.length > 0, item.deletion !== 'gone', 'objects exist just as long as the row')
  for (const link of item.links) {
    const { status } = await call(undefined, 'GET', link)
    t.equal(status, item.deletion === 'visible' ? 200 : 404, 'nothing deleted is delivered')
  }
  const count = async (type: string) =>
    (await admin.query('select from outbox where aggregate_id = $1 and type = $2', [item.uuid, type])).rowCount
  t.equal(await count('MediaDeleted'), item.deletions)
  t.equal(await count('MediaPurged'), item.deletion === 'gone' ? 1 : 0)
  t.equal(await count('LivePhotoPaired'), item.kind === 'image' && item.counterpart ? 1 : 0)
}

t.test('whatever happens to media items, in whatever order, they are whole or gone', async (t) => {
  const step = fc
    .tuple(fc.constantFrom(...Object.keys(STEPS)), fc.nat(3), fc.constantFrom<Who>('member', 'admin', 'another'))
    .map((args) => new Step(...args))
  const upload = fc
    .tuple(fc.constantFrom<Kind>('image', 'video'), fc.constantFrom(undefined, ...PAIRS))
    .map((args) => new Upload(...args))
  const commands = fc.commands([upload, fc.constant(new Purge()), step, step, step, step], {
    maxCommands: 30,
    size: 'max',
  })
  await fc.assert(
    fc.asyncProperty(commands, async (given) => {
      for (const table of ['media', 'purged_media']) await admin.query(`delete from ${table}`)
      for (const key of await api.keys()) await store.delete(key)
      await fc.asyncModelRun(() => ({ model: { items: [] }, real: {} }), given)
      if (!t.passing()) throw new Error('an expectation failed')
    }),
    { numRuns: 15, endOnFailure: true },
  )
  t.pass('no counterexample')
})
