// A process of its own: a program of a Job handles the signals of its process.
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { failureOf, PermanentError, TransientError } from '../../../jobs/runtime/failure.ts'
import { runJob } from '../../../jobs/runtime/run-job.ts'
import { withScratch } from '../../../jobs/runtime/scratch.ts'
import { terminationMessage } from '../../../jobs/runtime/termination-message.ts'
import { EXIT, type JobResult, parseJobResult } from '../../../lib/contract/job-result.ts'
import { StoreError } from '../../../lib/runtime/object-store/object-store.ts'

const folder = await mkdtemp(join(tmpdir(), 'keepsake-run-job-'))
const path = join(folder, 'termination-log')
process.env['TERMINATION_LOG'] = path
// Each run listens for signals until its process ends.
process.setMaxListeners(50)
t.teardown(() => rm(folder, { recursive: true, force: true }))
const result = async () => parseJobResult(await readFile(path, 'utf8'))

t.test('what the work returns is the result, and its code the exit code', async (t) => {
  t.equal(await runJob('test', async () => ({ exit: EXIT.ok, result: { ok: true } })), 0)
  t.strictSame(await result(), { ok: true })
})

t.test('LOG_LEVEL is the level of the log; a level that there is not fails no upload', async (t) => {
  const levelWith = async (level: string) => {
    process.env['LOG_LEVEL'] = level
    let seen: string | undefined
    const exit = await runJob('test', async ({ log }) => {
      seen = log.level
      return { exit: EXIT.ok, result: { ok: true } }
    })
    delete process.env['LOG_LEVEL']
    return [exit, seen]
  }
  t.strictSame(await levelWith('warn'), [0, 'warn'])
  t.strictSame(await levelWith('loud'), [0, 'info'])
})

const full = Object.assign(new Error('write'), { code: 'ENOSPC' })
const table: [string, unknown, number, string][] = [
  ['a bad input', new PermanentError(EXIT.inputBad, 'CorruptInput', 'x'), 12, 'CorruptInput'],
  [
    'a failed verification',
    new TransientError(EXIT.verificationFailed, 'VerificationFailed', 'x'),
    30,
    'VerificationFailed',
  ],
  ['a store that is away', new StoreError('Unavailable', 'x'), 20, 'StoreUnavailable'],
  ['a full disk', full, 21, 'NoSpace'],
  ['a full disk below a store', new StoreError('Unavailable', 'x', { cause: full }), 21, 'NoSpace'],
  ['a bug', new TypeError('x is not a function'), 20, 'Internal'],
  ['something that is no error', 'oops', 20, 'Internal'],
]
for (const [what, error, code, reason] of table) {
  t.test(`${what} ends with ${code}`, async (t) => {
    t.equal(await runJob('test', () => Promise.reject(error)), code)
    t.match(await result(), { ok: false, reason })
    t.equal(failureOf(error).permanent, code >= 10 && code <= 13)
  })
}

t.test('a result that cannot be written does not change the exit code', async (t) => {
  process.env['TERMINATION_LOG'] = join(folder, 'missing', 'log')
  t.equal(await runJob('test', async () => ({ exit: EXIT.ok, result: { ok: true } })), 0)
  process.env['TERMINATION_LOG'] = path
})

t.test('the largest possible result still fits, and says what failed', async (t) => {
  const outputs = Array.from({ length: 64 }, (_, i) => ({
    id: `med_${'x'.repeat(58)}${String(i).padStart(2, '0')}`,
    state: i === 7 ? ('Failed' as const) : ('Succeeded' as const),
    manifestKey: 'k'.repeat(512),
    reason: 'CorruptInput',
    message: 'ü'.repeat(512),
  }))
  const huge: JobResult = {
    ok: false,
    reason: 'CorruptInput',
    message: '€'.repeat(1024),
    accelerator: 'cpu',
    outputs,
    planReason: 'p'.repeat(256),
  }
  const text = terminationMessage(huge)
  t.ok(Buffer.byteLength(text) <= 4096)
  t.match(parseJobResult(text), {
    ok: false,
    reason: 'CorruptInput',
    outputs: [{ id: outputs[7]?.id, state: 'Failed' }],
  })
})

t.test('a small result loses nothing', async (t) => {
  const small: JobResult = {
    ok: false,
    planReason: 'one pass',
    outputs: [{ id: 'a', state: 'Failed', reason: 'X', message: 'why', manifestKey: 'k' }],
  }
  t.strictSame(parseJobResult(terminationMessage(small)), small)
})

t.test('scratch is removed when the work fails, and a living neighbour keeps his', async (t) => {
  const parent = join(folder, 'work')
  await withScratch(parent, async () => {
    await t.rejects(
      withScratch(parent, () => Promise.reject(new Error('no'))),
      { message: 'no' },
    )
    t.equal((await readdir(parent)).length, 1)
  })
  t.strictSame(await readdir(parent), [])
})
