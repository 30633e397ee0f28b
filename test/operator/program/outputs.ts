import t from 'tap'
import type { JobResult } from '../../../lib/contract/job-result.ts'
import type { ProgramKind } from '../../../operator/program/kind.ts'
import { outcomeOf, playableOf } from '../../../operator/program/outputs.ts'
import { eachKind } from '../../support/each-kind.ts'

const ids = ['a', 'b', 'c']
const three: Pick<ProgramKind, 'outputs'> = { outputs: () => ids.map((id) => ({ id, outputPrefix: `to/${id}/` })) }

eachKind(t, (t, { kind, aResource }) => {
  const outputsOf = (result: JobResult | undefined) => outcomeOf({ ...kind, ...three }, aResource(), result).outputs

  t.test('what the program left out because it follows from the specification is filled in', async (t) => {
    t.strictSame(
      outputsOf({ ok: true }),
      ids.map((id) => ({ id, state: 'Succeeded', manifestKey: `to/${id}/manifest.json` })),
    )
    const mixed: JobResult = {
      ok: false,
      reason: 'Corrupt',
      outputs: [
        { id: 'a', state: 'Succeeded' },
        { id: 'c', state: 'Failed', reason: 'Corrupt', message: 'no frame', item: 'm7' },
        { id: 'unknown', state: 'Succeeded' },
      ],
    }
    t.strictSame(outputsOf(mixed), [
      { id: 'a', state: 'Succeeded', manifestKey: 'to/a/manifest.json' },
      { id: 'c', state: 'Failed', reason: 'Corrupt', message: 'no frame', item: 'm7' },
    ])
  })

  t.test('without a result there is no list at all', async (t) => {
    t.equal(outputsOf(undefined), undefined)
    t.equal(outputsOf({ ok: false, reason: 'Corrupt' }), undefined)
  })
})

t.test('only what succeeded can be played', async (t) => {
  const outputs = [
    { id: 'a', state: 'Succeeded' as const },
    { id: 'b', state: 'Failed' as const },
  ]
  t.strictSame(playableOf({ outputs }), ['a'])
  t.strictSame(playableOf(undefined), [])
})
