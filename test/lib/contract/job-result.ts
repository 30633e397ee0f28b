import t from 'tap'
import { EXIT, type JobResult, PERMANENT_EXITS, parseJobResult } from '../../../lib/contract/job-result.ts'

const good: JobResult = {
  ok: true,
  accelerator: 'cpu',
  outputs: [{ id: 'med_1', state: 'Succeeded', manifestKey: 'org/1/media/1/v1/manifest.json' }],
}
const text = JSON.stringify(good)

t.test('reads what a job left', async (t) => {
  t.strictSame(parseJobResult(text), good)
})

t.test('everything a killed or cut off program leaves is no result', async (t) => {
  for (let length = 0; length < text.length; length++) {
    if (parseJobResult(text.slice(0, length)) !== undefined) t.fail(`the first ${length} characters`)
  }
  t.equal(parseJobResult(undefined), undefined)
  t.equal(parseJobResult('null'), undefined)
  t.equal(parseJobResult('[]'), undefined)
  t.equal(parseJobResult('{"ok":"yes"}'), undefined)
  t.equal(parseJobResult('{"ok":false,"reason":"not a reason"}'), undefined)
})

t.test('codes that no attempt can help are those of the pod failure policy', async (t) => {
  t.strictSame(PERMANENT_EXITS, [10, 11, 12, 13])
  t.equal(new Set(Object.values(EXIT)).size, Object.keys(EXIT).length, 'no two outcomes share a code')
  t.ok(Object.values(EXIT).every((code) => Number.isInteger(code) && code >= 0 && code <= 255))
})
