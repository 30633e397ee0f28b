import t from 'tap'
import type { FollowOptions } from '../../../../api/worker/follow.ts'
import { recordProgress } from '../../../../api/worker/runs/commands.ts'
import { followRuns, projectFact } from '../../../../api/worker/runs/project.ts'
import type { RunStatus } from '../../../../crds/run.ts'
import { newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { manifestKey, masterKey } from '../../../../lib/contract/object-keys.ts'
import { type ObjectStore, StoreError } from '../../../../lib/runtime/object-store/object-store.ts'
import { failed, running } from '../../../support/conversion-world.ts'
import { eventually } from '../../../support/eventually.ts'
import { eachKindOfRuns } from '../../../support/run-worlds.ts'

eachKindOfRuns(t, (t, world) => {
  const { kind, base, row, set, prefixOf, show, done, keyIn } = world
  const { db, store } = base

  function project(t: { teardown(fn: () => Promise<void>): void }, options: FollowOptions = {}, other = {}) {
    const follower = followRuns({ ...base, ...other }, kind, { progressMs: 0, backoffMs: () => 10, ...options })
    t.teardown(() => follower.stop())
    return follower
  }
  const until = (id: Uuid, status: string) =>
    eventually(`${status} row`, async () => {
      const found = await row(id)
      return found.status === status ? found : undefined
    })
  const outputIdOf = (id: Uuid) => kind.manifest.idOf(id)

  t.test('a run is told from the first percent to the end', async (t) => {
    const id = await world.running()
    const prefix = await prefixOf(id)
    project(t)
    await show(id, { phase: 'Pending', attempts: 0 })
    await show(id, running(10))
    await eventually('the first percent', async () => (await row(id)).progress?.percent === 10)
    const progress = { percent: 10, speed: '1.8x', eta_sec: 90, stage: 'Encoding' }
    t.match(await row(id), { status: 'processing', state: 'running', attempts: 1, progress, version: 2 })
    await show(id, running(40, { playable: [outputIdOf(id)] }))
    await eventually('more', async () => (await row(id)).progress?.percent === 40)
    t.equal((await row(id)).hlsMaster, null, 'a playlist that is not there is not linked')
    await store.put(masterKey(prefix), '#EXTM3U', { contentType: 'text/plain' })
    await show(id, running(41, { playable: [outputIdOf(id)] }))
    await eventually('something to play', async () => (await row(id)).hlsMaster)
    t.match(await row(id), { status: 'processing', outputPrefix: prefix, hlsMaster: 'master.m3u8' })
    await world.writeOutput(id)
    await show(id, { ...done, attempts: 2 })
    const over = await until(id, 'completed')
    t.match(over, { state: 'succeeded', error: null, progress: null, outputPrefix: prefix, hlsMaster: 'master.m3u8' })
    t.match(over, { attempts: 2, startedAt: new Date('2026-05-01T10:00:00Z') })
    t.ok(over.finishedAt)
    t.equal(await world.announced(id), 1)
  })

  t.test('the time of day may go back: progress goes on, and what can be played is told', async (t) => {
    const id = await world.running()
    const now = Date.now.bind(Date)
    let backMs = 0
    t.intercept(Date, 'now', { value: () => now() - backMs })
    project(t, {}, { clock: { now: () => new Date(Date.now()) } })
    await show(id, running(10))
    await eventually('the first percent', async () => (await row(id)).progress?.percent === 10)
    backMs = 3_600_000
    await store.put(masterKey(await prefixOf(id)), '#EXTM3U', { contentType: 'text/plain' })
    await show(id, running(11, { playable: [outputIdOf(id)] }))
    await eventually('more', async () => (await row(id)).progress?.percent === 11)
    t.equal((await row(id)).hlsMaster, 'master.m3u8')
  })

  t.test('a failed run keeps nothing that was only begun', async (t) => {
    const id = await world.running()
    project(t)
    await store.put(masterKey(await prefixOf(id)), '#EXTM3U', { contentType: 'text/plain' })
    await show(id, running(40, { playable: [outputIdOf(id)] }))
    await eventually('something to play', async () => (await row(id)).hlsMaster)
    await show(id, failed('DeadlineExceeded', 'pod tj-1 on node-7'))
    const over = await until(id, 'failed')
    t.match(over, { state: 'failed', error: { code: 'TIMEOUT' }, outputPrefix: null, hlsMaster: null, attempts: 3 })
    t.notMatch(JSON.stringify(over.error), /node-7/)
    t.equal(await world.announced(id), 0)
  })

  const outputOf = (id: Uuid) => ({ id: outputIdOf(id), state: 'Failed' as const, reason: 'Terminated' })
  const failures: [string, (id: Uuid) => RunStatus][] = [
    ['after its last attempt wrote the manifest and died', () => failed('DeadlineExceeded')],
    ['because the result of its Job could not be read', () => failed('ResultMissing')],
    ['and names the output', (id) => ({ ...failed('Terminated'), outputs: [outputOf(id)] })],
  ]
  for (const [why, statusOf] of failures) {
    t.test(`a resource that failed ${why}: what is committed is complete`, async (t) => {
      const id = await world.running()
      await world.writeOutput(id)
      project(t)
      await show(id, statusOf(id))
      t.match(await until(id, 'completed'), { error: null, outputPrefix: await prefixOf(id), hlsMaster: 'master.m3u8' })
      t.equal(await world.announced(id), 1)
    })
  }

  t.test('a resource that failed with a manifest that is of no use has failed for its own reason', async (t) => {
    const id = await world.running()
    await world.writeOutput(id, { id: outputIdOf(newUuid()) })
    project(t)
    await show(id, failed('DeadlineExceeded'))
    t.match(await until(id, 'failed'), { error: { code: 'TIMEOUT' } })
  })

  t.test('a store that is away decides nothing about a resource that failed', async (t) => {
    const id = await world.running()
    await world.writeOutput(id)
    const answers = [new StoreError('Unavailable', 'away'), new StoreError('Unavailable', 'away')]
    const get: ObjectStore['get'] = async (...args) => {
      const answer = answers.shift()
      if (answer) throw answer
      return store.get(...args)
    }
    project(t, { manifestAttempts: 1 }, { store: { ...store, get } })
    await show(id, failed('DeadlineExceeded'))
    await until(id, 'completed')
    t.equal(answers.length, 0)
  })

  t.test('however often and by however many workers success is told, it happens once', async (t) => {
    const ids = [await world.running(), await world.running(), await world.running()]
    for (const id of ids) await world.writeOutput(id)
    const several = [project(t), project(t), project(t)]
    for (const id of ids) {
      // Forwards, backwards and again.
      for (const status of [running(90), done, running(10), done]) await show(id, status)
      const { name } = await world.keyOf(id)
      for (const follower of several) follower.lookAgain(name)
    }
    await Promise.all(ids.map((id) => until(id, 'completed')))
    for (const id of ids) {
      const fact = { id, prefix: await prefixOf(id), state: 'succeeded' } as const
      t.equal(await projectFact(base, kind, fact, true), false)
      t.equal(await world.announced(id), 1)
    }
  })

  t.test('projections of one success at the same moment append one event', async (t) => {
    const id = await world.running()
    await world.writeOutput(id)
    const fact = { id, prefix: await prefixOf(id), state: 'succeeded' } as const
    const news = await Promise.all(Array.from({ length: 12 }, () => projectFact(base, kind, fact, true)))
    t.equal(news.filter(Boolean).length, 1)
    t.equal(await world.announced(id), 1)
  })

  t.test('news of progress at the same moment, in any order, end at the latest', async (t) => {
    const id = await world.running()
    const startedAt = new Date()
    const told = [5, 90, 30, 70, 10, 50].map((percent) => ({ percent, speed: null, eta_sec: null, stage: null }))
    await Promise.all(told.map((progress) => recordProgress(db, kind, keyIn(id), { startedAt, attempts: 1, progress })))
    t.equal((await row(id)).progress?.percent, 90)
  })

  t.test('what is said of another generation, of a deleted row or of none changes nothing', async (t) => {
    const [other, deleted] = [await world.running(), await world.running()]
    const fact = async (id: Uuid) => ({ id, prefix: await prefixOf(id), state: 'succeeded' }) as const
    for (const id of [other, deleted]) await world.writeOutput(id)
    const early = await fact(other)
    await set(other, 'generation = 2')
    await set(deleted, 'deleted_at = now()')
    t.equal(await projectFact(base, kind, early, true), false)
    t.equal(await projectFact(base, kind, await fact(deleted), true), false)
    t.equal(await projectFact(base, kind, { id: newUuid(), prefix: 'x/', state: 'succeeded' }, true), false)
    for (const id of [other, deleted]) t.match(await row(id), { status: 'processing', version: 1 })
    t.strictSame([await world.announced(other), await world.announced(deleted)], [0, 0])
  })

  t.test('a store that is away delays the end, and does not count as a manifest that is missing', async (t) => {
    const id = await world.running()
    const answers = [new StoreError('Unavailable', 'away'), new StoreError('Unavailable', 'away'), 'missing']
    const get: ObjectStore['get'] = async (...args) => {
      const answer = answers.shift()
      if (answer === 'missing') {
        await world.writeOutput(id)
        throw new StoreError('NotFound', 'not yet')
      }
      if (answer instanceof Error) throw answer
      return store.get(...args)
    }
    project(t, { manifestAttempts: 2 }, { store: { ...store, get } })
    await show(id, done)
    await until(id, 'completed')
    t.equal(answers.length, 0)
  })

  const text = (body: string) => async (id: Uuid) =>
    void (await store.put(manifestKey(await prefixOf(id)), body, { contentType: 'text/plain' }))
  const useless: [string, (id: Uuid) => Promise<void>][] = [
    ['is missing', async () => {}],
    ['is no JSON', text('{')],
    ['is huge', text(' '.repeat(300_000))],
    ['does not fit', (id) => world.writeOutput(id, { hls: {} })],
    ['is about another row', (id) => world.writeOutput(id, { id: outputIdOf(newUuid()) })],
    ['leads elsewhere', (id) => world.writeOutput(id, { hls: { ...hlsOf(id), master: '../../x.m3u8' } })],
    ['Postgres cannot keep', (id) => world.writeOutput(id, { createdAt: '\0' })],
  ]
  const hlsOf = (id: Uuid) => (world.manifestOf(id) as { hls: object }).hls
  for (const [what, prepare] of useless) {
    t.test(`a manifest that ${what} fails the run, after a few attempts`, async (t) => {
      const id = await world.running()
      await prepare(id)
      project(t, { manifestAttempts: 3 })
      await show(id, done)
      t.match(await until(id, 'failed'), { error: { code: 'INTERNAL' } })
      t.equal(await world.announced(id), 0)
    })
  }
})
