import fc from 'fast-check'
import t from 'tap'
import {
  ProgressReport,
  type ProgressSubject,
  progressToken,
  verifyProgressToken,
} from '../../../lib/contract/progress.ts'

const subject: ProgressSubject = {
  kind: 'TranscodeJob',
  namespace: 'keepsake',
  name: 'tj-01h455vb4pex5vsknk084sn02q-1',
  uid: '0190aaaa-0000-7000-8000-000000000000',
  jobName: 'tj-01h455vb4pex5vsknk084sn02q-1-a1',
}
const token = progressToken('key', subject)

t.test('a token says for whom it speaks', async (t) => {
  t.strictSame(verifyProgressToken('key', token), subject)
})

t.test('a token of another key is none', async (t) => {
  t.equal(verifyProgressToken('other', token), undefined)
})

t.test('no change of a token is accepted', async (t) => {
  fc.assert(
    fc.property(fc.nat(token.length - 1), fc.constantFrom(...'ABCxyz019-_.'), (at, char) => {
      const changed = token.slice(0, at) + char + token.slice(at + 1)
      const got = verifyProgressToken('key', changed)
      // The last character of a base64 text holds bits that mean nothing; the subject must be the same then.
      return got === undefined || JSON.stringify(got) === JSON.stringify(subject)
    }),
    { numRuns: 500 },
  )
  t.pass()
})

t.test('nothing else is a token', async (t) => {
  const body = token.split('.')[0]
  for (const text of ['', '.', 'a', 'a.', '.a', `${body}.`, `${body}`, 'null.null', `${body}.AAAA`])
    t.equal(verifyProgressToken('key', text), undefined, text.slice(0, 20))
  fc.assert(fc.property(fc.string(), (text) => verifyProgressToken('key', text) === undefined))
})

t.test('a signature of one subject does not fit another', async (t) => {
  const other = progressToken('key', { ...subject, uid: '0190bbbb-0000-7000-8000-000000000000' })
  const mixed = `${other.split('.')[0]}.${token.split('.')[1]}`
  t.equal(verifyProgressToken('key', mixed), undefined)
})

const report = { percent: 42.5, speed: 1.8, etaSeconds: 12, stage: 'Encoding' }
const reports: [string, object, boolean][] = [
  ['an ordinary one', {}, true],
  ['speed and estimate not known yet', { speed: null, etaSeconds: null }, true],
  ['what can be played', { playable: ['med_1'] }, true],
  ['more than everything', { percent: 100.1 }, false],
  ['less than nothing', { percent: -1 }, false],
  ['not a number', { percent: Number.NaN }, false],
  ['half a second', { etaSeconds: 0.5 }, false],
  ['a stage that is none', { stage: 'Thinking' }, false],
  ['too many playable', { playable: Array.from({ length: 65 }, String) }, false],
]
for (const [name, over, good] of reports) {
  t.test(`${good ? 'accepts' : 'refuses'} a report: ${name}`, async (t) => {
    t.equal(ProgressReport.safeParse({ ...report, ...over }).success, good)
  })
}
