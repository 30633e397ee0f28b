import t from 'tap'
import { closing, isOpen, opening, type Window } from '../../../operator/retention-policy/window.ts'

const DAY = { from: '04:00', to: '06:30' }
const NIGHT = { from: '22:00', to: '04:00' }

const TIMES: [window: Window, at: string, opens: string, closes?: string][] = [
  [DAY, '2026-11-26T03:59:59.999Z', '2026-11-26T04:00:00.000Z'],
  [DAY, '2026-11-26T04:00:00.000Z', '2026-11-26T04:00:00.000Z', '2026-11-26T06:30:00.000Z'],
  [DAY, '2026-11-26T06:29:59.999Z', '2026-11-26T06:29:59.999Z', '2026-11-26T06:30:00.000Z'],
  [DAY, '2026-11-26T06:30:00.000Z', '2026-11-27T04:00:00.000Z'],
  [DAY, '2026-12-31T23:00:00.000Z', '2027-01-01T04:00:00.000Z'],
  [NIGHT, '2026-11-26T22:00:00.000Z', '2026-11-26T22:00:00.000Z', '2026-11-27T04:00:00.000Z'],
  [NIGHT, '2026-11-27T03:59:00.000Z', '2026-11-27T03:59:00.000Z', '2026-11-27T04:00:00.000Z'],
  [NIGHT, '2026-11-27T04:00:00.000Z', '2026-11-27T22:00:00.000Z'],
  [{ from: '00:00', to: '12:00' }, '2026-11-26T00:00:00.000Z', '2026-11-26T00:00:00.000Z', '2026-11-26T12:00:00.000Z'],
  [{ from: '12:00', to: '00:00' }, '2026-11-26T23:59:00.000Z', '2026-11-26T23:59:00.000Z', '2026-11-27T00:00:00.000Z'],
]

t.test('a window opens and closes, also across midnight', async (t) => {
  for (const [window, at, opens, closes] of TIMES) {
    const name = `${window.from} to ${window.to} at ${at}`
    const time = new Date(at)
    t.equal(isOpen(window, time), closes !== undefined, name)
    t.equal(opening(window, time).toISOString(), opens, name)
    if (closes) t.equal(closing(window, time).toISOString(), closes, name)
  }
})
