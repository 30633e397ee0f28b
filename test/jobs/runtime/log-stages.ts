import t from 'tap'
import { logStages } from '../../../jobs/runtime/log-stages.ts'
import type { ProgressReport } from '../../../lib/contract/progress.ts'
import { openLog } from '../../../lib/runtime/log.ts'

t.test('each stage, the first frames and what can be played get one line each', (t) => {
  const lines: Record<string, unknown>[] = []
  const to = { write: (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>) }
  let now = 0
  const tell = logStages(openLog({ program: 'test', to }), () => (now += 100.4))
  const of = (stage: ProgressReport['stage'], percent: number, playable: string[] = []) =>
    tell({ stage, percent, playable, speed: null, etaSeconds: null })
  of('Downloading', 0)
  of('Probing', 4)
  of('Encoding', 5)
  of('Encoding', 5)
  of('Encoding', 6.6)
  of('Encoding', 9)
  of('Encoding', 9, ['a'])
  of('Encoding', 12, ['a'])
  of('Publishing', 98, ['a'])
  // A second video.
  of('Downloading', 98, ['a'])
  of('Encoding', 98, ['a'])
  of('Encoding', 99, ['a', 'b'])
  t.strictSame(
    lines.map(({ msg, stage, percent }) => [msg, stage, percent]),
    [
      ['stage', 'Downloading', 0],
      ['stage', 'Probing', 4],
      ['stage', 'Encoding', 5],
      ['first frames', 'Encoding', 7],
      ['playable', 'Encoding', 9],
      ['stage', 'Publishing', 98],
      ['stage', 'Downloading', 98],
      ['stage', 'Encoding', 98],
      ['first frames', 'Encoding', 99],
      ['playable', 'Encoding', 99],
    ],
  )
  t.match(lines[0], { level: 'info', msSinceStart: 100 })
  t.end()
})
