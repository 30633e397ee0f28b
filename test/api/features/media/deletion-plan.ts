import t from 'tap'
import { DELETE_MOVES, deletionStateOf, RESTORE_MOVES } from '../../../../api/features/media/deletion/plan.ts'

const then = new Date(0)
const CASES = [
  { what: 'visible', deletedAt: null, purgingAt: null, isPastRestore: false, del: 'delete', res: 'nothing' },
  { what: 'deleted', deletedAt: then, purgingAt: null, isPastRestore: false, del: 'nothing', res: 'restore' },
  { what: 'deleted long ago', deletedAt: then, purgingAt: null, isPastRestore: true, del: 'not-found', res: 'refuse' },
  { what: 'purging', deletedAt: then, purgingAt: then, isPastRestore: true, del: 'not-found', res: 'refuse' },
  // A clock that was set back.
  {
    what: 'purging too early',
    deletedAt: then,
    purgingAt: then,
    isPastRestore: false,
    del: 'not-found',
    res: 'refuse',
  },
] as const

for (const { what, del, res, ...seen } of CASES) {
  t.test(`what is ${what}: delete does ${del}, restore does ${res}`, async (t) => {
    const state = deletionStateOf(seen)
    t.strictSame([DELETE_MOVES[state], RESTORE_MOVES[state]], [del, res])
  })
}
