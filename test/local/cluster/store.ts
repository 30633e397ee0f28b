import t from 'tap'
import * as z from 'zod'
import { GROUP, immutable, immutableIfSet, type Kind, VERSION } from '../../../crds/kind.ts'
import type { KubeObject, Resource } from '../../../lib/runtime/kube/cluster.ts'
import { customResource, type ResourceRules } from '../../../local/cluster/admission.ts'
import { applyFields } from '../../../local/cluster/field-ownership.ts'
import { openLocalCluster } from '../../../local/cluster/local-cluster.ts'
import { parseFieldSelector, parseSelector } from '../../../local/cluster/selector.ts'
import { Store } from '../../../local/cluster/store.ts'
import { eventually } from '../../support/eventually.ts'

const THINGS: Resource = { group: GROUP, version: VERSION, plural: 'things', kind: 'Thing' }
const spec = z.object({ size: z.int().default(1), color: z.string().default('red'), note: z.string().optional() })

const thing = (rule = immutable(['color'])): Kind => ({
  kind: 'Thing',
  plural: 'things',
  shortNames: [],
  categories: [],
  description: '',
  spec: spec.meta({ 'x-kubernetes-validations': rule }),
  status: z.object({ parts: z.array(z.string()).meta({ 'x-kubernetes-list-type': 'set' }).optional() }),
  columns: [],
})

interface Thing extends KubeObject {
  spec: { size?: number; color?: string; note?: string }
}

t.test('any kind has its own defaults, fixed fields and lists', async (t) => {
  const store = new Store([customResource(thing())])
  const key = { namespace: 'n', name: 'a' }
  t.strictSame(store.create<Thing>(THINGS, { metadata: key, spec: {} }).spec, { size: 1, color: 'red' })
  t.match(store.patch<Thing>(THINGS, key, { spec: { size: 2 } }), { spec: { size: 2 }, metadata: { generation: 2 } })
  t.throws(() => store.patch(THINGS, key, { spec: { color: 'blue' } }), /spec.color: .* immutable/)
  t.throws(() => store.applyStatus(THINGS, key, { parts: ['x', 'x'] }, 'm'), /Duplicate value/)
  t.throws(() => store.applyStatus(THINGS, key, { unknown: 1 }, 'm'), /not declared in schema/)
  const noted = new Store([customResource(thing(immutableIfSet(['note'])))])
  noted.create<Thing>(THINGS, { metadata: key, spec: {} })
  noted.create<Thing>(THINGS, { metadata: { ...key, name: 'b' }, spec: { note: 'x' } })
  t.match(noted.patch<Thing>(THINGS, key, { spec: { color: 'blue' } }), { spec: { color: 'blue' } })
  t.throws(() => noted.patch(THINGS, key, { spec: { note: 'late' } }), /spec.note: .* immutable/)
  t.throws(() => noted.patch(THINGS, { ...key, name: 'b' }, { spec: { note: null } }), /spec.note: .* immutable/)
  const rule = [{ rule: 'self.size >= oldSelf.size', message: 'only grows' }]
  t.throws(() => customResource(thing(rule)), /does not understand the rule/)
})

t.test('what belongs to the server cannot be written by anybody else', async (t) => {
  const store = new Store([customResource(thing())])
  const key = { namespace: 'n', name: 'a' }
  const forged = { ...key, uid: 'mine', generation: 7, creationTimestamp: 'then' }
  const made = store.create<Thing>(THINGS, { metadata: forged, spec: {} })
  t.match(made.metadata, { generation: 1, uid: /^[0-9a-f-]{36}$/, creationTimestamp: /^20\d\d-.*:\d\dZ$/ })
  const patched = store.patch<Thing>(THINGS, key, {
    metadata: { generation: 9, creationTimestamp: null, labels: { a: 'b' } },
  })
  t.strictSame(patched.metadata, {
    ...made.metadata,
    labels: { a: 'b' },
    resourceVersion: patched.metadata.resourceVersion,
  })
  t.throws(() => store.patch(THINGS, key, { metadata: { name: 'b' } }), /immutable/)
  t.throws(() => store.patch(THINGS, key, { metadata: { uid: 'other' } }), /UID in precondition/)
  t.throws(() => store.create(THINGS, { ...made, kind: 'Other' }), /was sent to/)
  t.throws(() => store.create(THINGS, { ...made, apiVersion: 'v1' }), /does not match/)
  t.throws(() => store.create(THINGS, made), /must not be set/)
  t.throws(() => store.create(THINGS, { metadata: { name: 'b' }, spec: {} } as Thing), /namespace: Required/)
})

t.test('nobody can change what others hold', async (t) => {
  const cluster = openLocalCluster({ kinds: [thing()] })
  t.teardown(() => cluster.close())
  const told: Thing[] = []
  const reflection = cluster.reflect<Thing>(THINGS, {
    onSet: (object) => void told.push(object),
    onDelete: () => undefined,
  })
  const given = { metadata: { name: 'a', namespace: 'n' }, spec: { size: 5 } }
  const made = await cluster.create<Thing>(THINGS, given)
  given.spec.size = 6
  made.spec.size = 7
  await eventually('the object', () => told.length > 0)
  t.throws(() => Object.assign(told[0]?.spec ?? {}, { size: 8 }), TypeError)
  t.equal((await cluster.get<Thing>(THINGS, { namespace: 'n', name: 'a' }))?.spec.size, 5)
  t.equal(reflection.get({ namespace: 'n', name: 'a' })?.spec.size, 5)
})

t.test('a cache lags behind the answers, and a reader that throws harms no other', async (t) => {
  const cluster = openLocalCluster({ kinds: [thing()] })
  t.teardown(() => cluster.close())
  const errors: unknown[] = []
  const names: string[] = []
  const clumsy = () => {
    throw new Error('clumsy')
  }
  const first = cluster.reflect(THINGS, {
    onSet: clumsy,
    onDelete: clumsy,
    onError: (error) => void errors.push(error),
  })
  const second = cluster.reflect(THINGS, { onSet: (o) => void names.push(o.metadata.name), onDelete: () => undefined })
  await Promise.all([first.synced(), second.synced()])
  const key = { namespace: 'n', name: 'a' }
  await cluster.create<Thing>(THINGS, { metadata: key, spec: {} })
  t.equal(second.get(key), undefined)
  await eventually('the object', () => names.length > 0)
  t.match(errors, [{ message: 'clumsy' }])
  t.match(second.get(key), { metadata: key })
})

t.test('forgets objects that are only kept for a while', async (t) => {
  const rules: ResourceRules = { ...customResource(thing()), keepsForMs: -2000 }
  const store = new Store([rules])
  for (const name of ['a', 'b', 'c']) store.create<Thing>(THINGS, { metadata: { name, namespace: 'n' }, spec: {} })
  t.strictSame(
    store.all(THINGS).map((o) => o.metadata.name),
    ['c'],
  )
})

t.test('a field of status goes when its last owner leaves it out', async (t) => {
  const none = new Map<string, Set<string>>()
  const one = applyFields({}, none, { a: 1, b: 1 }, 'one')
  const shared = applyFields(one.value, one.owners, { a: 1 }, 'two')
  const left = applyFields(shared.value, shared.owners, {}, 'one')
  t.strictSame(left.value, { a: 1 }, 'an equal value is owned by both')
  const taken = applyFields(one.value, one.owners, { a: 2 }, 'two')
  t.strictSame(
    applyFields(taken.value, taken.owners, { b: 1 }, 'one').value,
    { a: 2, b: 1 },
    'a different one is taken',
  )
})

t.test('refuses a selector that it cannot read', async (t) => {
  for (const text of ['a=b=c', 'a in b', '=', 'a,,b'])
    t.throws(() => parseSelector(text), { message: /unable to parse/ }, text)
  for (const text of ['a', 'a=b=c', 'a in (b)', 'a=b,']) {
    t.throws(() => parseFieldSelector(text), { message: /unable to parse/ }, text)
  }
  t.ok(parseSelector(' ')({}))
  t.ok(parseSelector('a in (x,y) , b!=c')({ a: 'y' }))
})
