import t from 'tap'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { succeeded, testStore } from '../../../support/conversion-world.ts'
import { highlightWorld, renderWorld } from '../../../support/highlights.ts'
import { dyingWorkers, patiently } from '../../../support/worker-process.ts'

// The worker as it runs in a pod, killed where it hurts most; Postgres, the API server and the store live on. What is the
// same code for conversions, before an event is handled and until its outcome is read, is in test/api/worker/crash.ts.
const place = await testStore(t)
const api = await startTestApi(t, { store: place.store })
const { database } = api
const { cluster, start, startHere, died } = await dyingWorkers(t, database, place, 'highlights')
const world = highlightWorld(api)
const { render, show, writeOutput, prefixOf, generated } = renderWorld(api, world, cluster)

const unpublished = async () =>
  (await world.sql('select count(*)::int as n from outbox where published_at is null'))[0].n as number
const statusOf = async (id: string) => (await world.get(id)).data?.status
const finish = async (id: string) => {
  await patiently('a HighlightRender', () => render(id))
  await writeOutput(id)
  await show(id, { ...succeeded(), outputs: [{ id, state: 'Succeeded' }] })
}

interface Case {
  /** What the first worker meets before it dies. */
  before?(id: string, media: string): Promise<unknown>
  /** What the next worker has to reach. */
  end: 'completed' | 'failed' | 'gone'
}
const deleted: Case = { before: (_, media) => world.deleteMedia(media), end: 'failed' }
const withdrawn: Case = {
  async before(id) {
    await writeOutput(id)
    await world.remove(id)
  },
  end: 'gone',
}
const CASES: Record<string, Case> = {
  'render.admitted': { end: 'completed' },
  'render.created': { end: 'completed' },
  'render.recorded': { before: finish, end: 'completed' },
  'render.failed': deleted,
  'render.purged': withdrawn,
}

for (const [failpoint, { before, end }] of Object.entries(CASES)) {
  t.test(`killed at ${failpoint}, the next worker finishes: ${end}`, async (t) => {
    const media = await world.aMedia()
    const id = await world.aHighlight({ media: [media] })
    const first = start(t, { KEEPSAKE_FAILPOINT: failpoint })
    if (before) {
      await patiently('a HighlightRender', () => render(id))
      await before(id, media)
    }
    await died(t, first)

    const second = await startHere(t)
    if (end === 'completed' && !before) await finish(id)
    if (end !== 'gone') await patiently(end, async () => (await statusOf(id)) === end)
    if (end !== 'completed') {
      await patiently('no HighlightRender', async () => !(await render(id)))
      await patiently('no files', async () => (await api.keys(prefixOf(id))).length === 0)
    }
    await patiently('an empty outbox', async () => (await unpublished()) === 0)
    await second.close()
    t.equal(await generated(id), end === 'completed' ? 1 : 0)
    const [row] = await world.sql('select version from highlights where id = $1', [uuidOf('highlight', id)])
    t.equal(row.version, 2, 'its state changed once')
  })
}
