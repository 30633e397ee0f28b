import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { ERASE_STEPS } from '../../../../api/features.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { startTestApi, uuidOf } from '../../../support/api.ts'
import { canaryScene } from '../../../support/canary-scene.ts'
import { testCluster } from '../../../support/conversion-world.ts'
import { canariesOf, eraseDeps, findInDatabase, findInFolder, needlesOf } from '../../../support/erasure.ts'
import { eraseFailing } from '../../../support/failing-eraser.ts'
import { quickStart } from '../../../support/quick-start.ts'

/**
 * One erasure whose worker is killed in the steps that change more than the database, between the one and the other; every
 * other step fails behind its last line, before it is recorded. The next worker repeats it.
 */
const ERASER = fileURLToPath(new URL('../../../support/dying-eraser.ts', import.meta.url))
const api = await startTestApi(t, { settings: { TRUST_PROXY_HOPS: '1' } })
const { people, database, config } = api
const canaries = canariesOf(newUuid())
const scene = await canaryScene(api, canaries, testCluster(t))
const sql = async (text: string, values: unknown[] = []) => (await database.admin.query(text, values)).rows
const { data } = await api.call(people.platformAdmin, 'POST', '/gdpr/anonymize', {
  json: { user_id: scene.person.wireId, confirm: true },
})
const id = uuidOf('anonymization', data.anonymization_id)

/** As if the time of what the one before had claimed were over. */
async function endLeases(): Promise<void> {
  await sql('update erasures set lease_until = now()')
  await sql('update media set lease_at = now()')
  await sql('update highlights set purge_lease_until = now()')
}

/** Ends with the signal that killed it, or its exit status. */
async function eraser(failpoint: string): Promise<string | number> {
  await endLeases()
  const child = spawn(
    process.execPath,
    [ERASER, database.url, config.STORE_FOLDER ?? '', config.ERASURE_KEY, id, failpoint],
    {
      env: { PATH: process.env['PATH'], ...quickStart() },
      stdio: ['ignore', 'ignore', 'inherit'],
    },
  )
  t.teardown(() => void child.kill('SIGKILL'))
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  return signal ?? code ?? 'nothing'
}

/** Between what a step changes in the database and elsewhere, in the order of the steps. */
const DEATHS: readonly [step: string, failpoint: string][] = [
  ['erasure.ledger', 'erasure.ran.erasure.ledger'],
  ['media.uploads', 'erasure.uploads-ended'],
  ['highlights.files', 'render.purged'],
  ['media.files', 'purge.objects-deleted'],
]

t.test('killed at any step, the next worker goes on, and nothing is left of the person', async (t) => {
  for (const [step, place] of DEATHS) {
    t.equal(await eraser(place), 'SIGKILL', place)
    const [row] = await sql('select state from erasure_steps where erasure_id = $1 and step = $2', [id, step])
    t.strictSame(row, { state: 'pending' }, `${step} was not recorded`)
  }
  t.equal(await eraser('erasure.completed'), 'SIGKILL')
  await endLeases()
  await eraseFailing(eraseDeps(api, testCluster(t)), id)
  t.match(await sql('select status from erasures where id = $1', [id]), [{ status: 'completed' }])
  const repeated = await sql('select step from erasure_steps where erasure_id = $1 and attempts > 1', [id])
  t.strictSame(
    repeated.map(({ step }) => step).sort(),
    ERASE_STEPS.map(({ name }) => name).sort(),
    'every step ran twice',
  )
  const kinds = ['text', 'email', 'phone', 'agent', 'address', 'token'] as const
  t.strictSame(await findInDatabase(database.admin, needlesOf(canaries, [...kinds])), [])
  t.strictSame(await findInFolder(config.STORE_FOLDER ?? '', needlesOf(canaries)), [])
  const completed = await sql(
    `select from audit_log where action = 'GDPR_ANONYMIZE' and details ->> 'operation' = 'complete'`,
  )
  t.equal(completed.length, 1)
  t.strictSame(await sql('select from erasure_resources'), [])
})
