import t from 'tap'
import {
  parseRetentionResult,
  type RetentionError,
  type RetentionResult,
  RetentionRun,
  retentionMessage,
} from '../../../lib/contract/retention.ts'

const run = {
  policy: 'trash',
  uid: '7a0d6bb2-35b6-4a0f-a9c2-7c1a3a1fb5a4',
  run: 'trash-29923766',
  target: 'MediaTrash',
  rules: [{ after: 'P30D', action: 'purge' }],
  batchSize: 100,
  dryRun: false,
  maxDuePercent: 20,
  confirmed: false,
  slot: '2026-11-26T01:00:00.000Z',
}

t.test('a run is parsed, and one that is not whole is refused', async (t) => {
  t.match(RetentionRun.parse(run), { ...run, parallelism: 1 })
  for (const [field, value] of Object.entries({
    target: 'Everything',
    rules: [],
    batchSize: 0,
    slot: 'now',
    uid: '',
    run: 'x'.repeat(64),
    bytesPerSecond: 0,
    until: '2026-11-26',
  })) {
    t.notOk(RetentionRun.safeParse({ ...run, [field]: value }).success, field)
  }
  const moved = RetentionRun.safeParse({ ...run, rules: [{ after: 'P30D', action: 'moveToTier', tier: 'cold' }] })
  t.match(moved.error?.issues, [{ path: ['rules'], message: 'MediaTrash does not move to the tier cold' }])
})

const result: RetentionResult = {
  v: 1,
  moved: 1,
  purged: 2,
  bytes: 3,
  failures: 4,
  due: 5,
  ended: 'Finished',
  errors: [],
}

t.test('a result survives the termination message, and half of one is none', async (t) => {
  const text = retentionMessage({ ...result, report: 'retention/reports/1.jsonl' })
  t.strictSame(parseRetentionResult(text), { ...result, report: 'retention/reports/1.jsonl' })
  for (const bad of [undefined, '', 'null', text.slice(0, -1), '{}', text.replace('"v":1', '"v":2')]) {
    t.equal(parseRetentionResult(bad), undefined, String(bad))
  }
})

t.test('a message holds as many errors as fit into what the kubelet keeps', async (t) => {
  const error = (fill: string): RetentionError => ({ id: 'm'.repeat(128), code: 'Locked', message: fill.repeat(256) })
  for (const fill of ['a', 'ä', '"', '\n']) {
    const text = retentionMessage({ ...result, errors: Array.from({ length: 10 }, () => error(fill)) })
    t.ok(Buffer.byteLength(text) <= 4096, `${JSON.stringify(fill)}: ${Buffer.byteLength(text)} bytes`)
    const { errors = [] } = parseRetentionResult(text) ?? {}
    t.ok(errors.length >= 4, `${JSON.stringify(fill)}: ${errors.length} errors`)
  }
  const small = Array.from({ length: 12 }, (_, i) => ({ id: `med_${i}`, code: 'Locked', message: 'until 2030' }))
  t.strictSame(parseRetentionResult(retentionMessage({ ...result, errors: small }))?.errors, small.slice(0, 10))
})
