import t from 'tap'
import {
  type BatchPriority,
  batchesOf,
  inTurns,
  type OrganizationImages,
  type PlannedBatch,
  type WaitingImage,
  waitingNeeded,
} from '../../../../../api/features/media/conversion/batch-plan.ts'

const MIB = 2 ** 20
const LIMITS = { interactive: 4, backfill: 2 }
const OLD = 60_000
const image = (id: string, change: Partial<WaitingImage> = {}): WaitingImage => ({
  id,
  bytes: 3 * MIB,
  waitedMs: OLD,
  regrouped: 0,
  ...change,
})
const images = (n: number, change: Partial<WaitingImage> = {}, prefix = 'i') =>
  Array.from({ length: n }, (_, i) => image(`${prefix}${i}`, change))
const organization = (change: Partial<OrganizationImages> = {}): OrganizationImages => ({
  orgId: 'org',
  interactive: [],
  running: { interactive: 0, backfill: 0 },
  waiting: [],
  ...change,
})
const sizes = (batches: readonly PlannedBatch[]) => batches.map(({ ids }) => ids.length)

const table: [string, Partial<OrganizationImages>, number[], number | undefined][] = [
  ['nothing waits', {}, [], undefined],
  ['a full batch is formed at once', { waiting: images(64, { waitedMs: 0 }) }, [64], undefined],
  ['the rest waits for more', { waiting: images(70, { waitedMs: 500 }) }, [64], 1500],
  ['the rest has waited long enough', { waiting: images(70, { waitedMs: 2000 }) }, [64, 6], undefined],
  [
    'the oldest image decides when a batch is formed',
    { waiting: [image('a', { waitedMs: 2000 }), ...images(3, { waitedMs: 1 })] },
    [4],
    undefined,
  ],
  ['only free slots are filled', { waiting: images(200), running: { interactive: 0, backfill: 1 } }, [64], undefined],
  ['without a slot nothing is formed', { waiting: images(9), running: { interactive: 0, backfill: 2 } }, [], undefined],
  [
    'without a slot nobody looks again',
    { waiting: images(9, { waitedMs: 0 }), running: { interactive: 0, backfill: 7 } },
    [],
    undefined,
  ],
  [
    'interactive batches take no backfill slot',
    { waiting: images(2), running: { interactive: 9, backfill: 1 } },
    [2],
    undefined,
  ],
  ['256 MiB are enough', { waiting: images(20, { bytes: 32 * MIB }) }, [8, 8], undefined],
  [
    'a batch that the next image would make too large is full',
    { waiting: images(9, { bytes: 31 * MIB, waitedMs: 0 }) },
    [8],
    2000,
  ],
  [
    'a large image is alone, at once, and those around it are not separated',
    { waiting: [image('a'), image('b', { bytes: 33 * MIB, waitedMs: 0 }), image('c')] },
    [2, 1],
    undefined,
  ],
  ['after a failed batch eight share one', { waiting: images(10, { regrouped: 1 }) }, [8, 2], undefined],
  ['after two failed batches each is alone', { waiting: images(9, { regrouped: 2 }) }, [1, 1], undefined],
  ['and stays so', { waiting: images(9, { regrouped: 7 }) }, [1, 1], undefined],
  [
    'those that failed do not share a batch with those that did not',
    { waiting: [image('a'), image('bad', { regrouped: 1 }), image('b')] },
    [2, 1],
    undefined,
  ],
  [
    'who waits for few images does not wait for more',
    { interactive: [{ running: 0, waiting: images(3, { waitedMs: 0 }) }] },
    [3],
    undefined,
  ],
  [
    'nor for a backfill of the organization',
    {
      interactive: [{ running: 0, waiting: images(1, { waitedMs: 0 }, 'mine') }],
      waiting: images(500),
      running: { interactive: 0, backfill: 2 },
    },
    [1],
    undefined,
  ],
  [
    'what one person uploads while two batches run becomes one batch later',
    { interactive: [{ running: 2, waiting: images(3) }], running: { interactive: 2, backfill: 0 } },
    [],
    undefined,
  ],
  [
    'many people share the slots of their organization',
    { interactive: Array.from({ length: 9 }, (_, i) => ({ running: 0, waiting: images(1, {}, `p${i}-`) })) },
    [1, 1, 1, 1],
    undefined,
  ],
]
for (const [name, change, expected, again] of table) {
  t.test(name, async (t) => {
    const plan = batchesOf(organization(change), LIMITS)
    t.strictSame(sizes(plan.batches), expected)
    t.equal(plan.againAfterMs, again)
  })
}

t.test('images keep their order, oldest first', async (t) => {
  const { batches } = batchesOf(organization({ waiting: images(100) }), LIMITS)
  t.strictSame(
    batches.flatMap(({ ids }) => ids),
    images(100).map(({ id }) => id),
  )
})

t.test('interactive batches come first, then organizations take turns', async (t) => {
  const of = (orgId: string, waitedMs: number, running = 0) =>
    batchesOf(
      organization({
        orgId,
        waiting: images(500, { waitedMs }, orgId),
        running: { interactive: 0, backfill: running },
      }),
      LIMITS,
    ).batches
  const person = organization({ orgId: 'd', interactive: [{ running: 0, waiting: images(1, { waitedMs: 0 }) }] })
  const all = inTurns([...of('a', 5000), ...of('b', 9000), ...of('c', 99_000, 1), ...batchesOf(person, LIMITS).batches])
  t.strictSame(
    all.map(({ orgId, turn }) => `${orgId}${turn}`),
    ['d0', 'b0', 'a0', 'c1', 'b1', 'a1'],
  )
})

interface Photo extends WaitingImage {
  orgId: string
  isInteractive: boolean
  arrivedAt: number
  batchedAt?: number
  doneAt?: number
}

/** Organizations whose photos are converted by a cluster with three nodes; a full batch takes five steps. */
function simulation(photos: readonly Photo[]) {
  const byId = new Map(photos.map((photo) => [photo.id, photo]))
  const photosOf = (batch: PlannedBatch) => batch.ids.map((id) => byId.get(id) as Photo)
  let running: (PlannedBatch & { endsAt: number })[] = []
  let queue: PlannedBatch[] = []
  const count = (orgId: string, priority: BatchPriority) =>
    [...running, ...queue].filter((batch) => batch.orgId === orgId && batch.priority === priority).length

  function finish(now: number): void {
    const ended = running.filter((batch) => batch.endsAt <= now)
    for (const photo of ended.flatMap(photosOf)) photo.doneAt = now
    running = running.filter((batch) => batch.endsAt > now)
  }
  function plan(now: number): PlannedBatch[] {
    const waiting = photos.filter((photo) => photo.arrivedAt <= now && photo.batchedAt === undefined)
    const planned = [...new Set(waiting.map(({ orgId }) => orgId))].flatMap((orgId) => {
      const mine = waiting.filter((photo) => photo.orgId === orgId)
      const interactive = mine.filter((photo) => photo.isInteractive).map((photo) => ({ running: 0, waiting: [photo] }))
      const counts = { interactive: count(orgId, 'interactive'), backfill: count(orgId, 'backfill') }
      const others = mine.filter((photo) => !photo.isInteractive).slice(0, waitingNeeded(LIMITS))
      return batchesOf(organization({ orgId, interactive, running: counts, waiting: others }), LIMITS).batches
    })
    for (const photo of planned.flatMap(photosOf)) photo.batchedAt = now
    return planned
  }
  /** Returns the batches that were formed. */
  function step(now: number): PlannedBatch[] {
    finish(now)
    const planned = plan(now)
    queue = inTurns([...queue, ...planned])
    const next = queue.splice(0, 3 - running.length)
    running.push(...next.map((batch) => ({ ...batch, endsAt: now + 1 + Math.ceil(batch.ids.length / 16) })))
    return planned
  }
  return { step, count }
}

t.test('5,000 photos of a first backup do not hold up the others', async (t) => {
  const photos: Photo[] = []
  const add = (orgId: string, n: number, arrivedAt: number, isInteractive = false) => {
    for (const one of images(n, {}, `${orgId}-${arrivedAt}-${isInteractive}-`)) {
      photos.push({ ...one, orgId, isInteractive, arrivedAt })
    }
  }
  add('backup', 5000, 0)
  for (let k = 0; k < 20; k++) add(`small${k}`, 70, 5 * k)
  for (let k = 0; k < 40; k++) add('backup', 1, 3 * k, true)
  const { step, count } = simulation(photos)
  let formed = 0
  let most = 0
  let now = 0
  for (; now < 5000 && photos.some((photo) => photo.doneAt === undefined); now++) {
    formed += step(now).length
    most = Math.max(most, count('backup', 'backfill'))
  }

  t.ok(now < 5000, 'everything is converted')
  t.equal(most, LIMITS.backfill)
  t.ok(photos.length / formed > 30, `${formed} batches`)
  const longest = (of: (photo: Photo) => boolean) =>
    Math.max(...photos.filter(of).map((photo) => (photo.doneAt as number) - photo.arrivedAt))
  const own = longest((photo) => photo.isInteractive)
  t.ok(own <= 8, `${own} steps for a photo that someone waits for`)
  const others = longest((photo) => photo.orgId.startsWith('small'))
  t.ok(others < now / 4, `${others} of ${now} steps for the other organizations`)
  const order = photos.filter((photo) => photo.orgId === 'backup' && !photo.isInteractive).map((p) => p.batchedAt ?? 0)
  t.strictSame(
    order,
    [...order].sort((a, b) => a - b),
    'a backup is converted in order',
  )
})
