import { formatId } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { insertAudit } from '../../audit/queries.ts'
import { type Commands, idOf } from '../../command-line/command.ts'
import { findErasure, findSteps, type ListedErasure, listErasures, wake } from './queries.ts'
import { replayLedger } from './replay.ts'
import { ErasureSettings } from './settings.ts'

const MAX_LISTED = 200

/** Commands of administrators. */
export const erasureCommands: Commands = {
  'erasures list': {
    args: [],
    options: { all: 'boolean' },
    help: [
      'erasures list [--all]',
      'show the erasures of accounts that are not completed, or all, with what failed last, and',
      'since when a legal hold keeps one;',
      `the latest ${MAX_LISTED}`,
    ],
    async run({ db }, _, options) {
      const rows = await db.read({}, (tx) =>
        listErasures(tx, { unfinished: options['all'] !== true, limit: MAX_LISTED }),
      )
      return { erasures: rows.map(shown) }
    },
  },
  'erasures show': {
    args: ['ERASURE'],
    help: ['erasures show ERASURE', 'show an erasure with its steps: attempts, what failed last, what was erased'],
    async run({ db }, [text = '']) {
      const id = idOf('anonymization', text)
      return db.read({}, async (tx) => {
        const row = await findErasure(tx, { id })
        if (!row) throw new Problem('NOT_FOUND', 'There is no such erasure')
        const steps = await findSteps(tx, id)
        return {
          ...shown({ ...row, open: steps.filter(({ state }) => state === 'pending').length, lastError: null }),
          steps: steps.map((one) => ({
            step: one.step,
            state: one.state,
            attempts: one.attempts,
            last_error: one.lastError,
            finished_at: one.finishedAt,
            counts: one.counts,
          })),
        }
      })
    },
  },
  'erasures retry': {
    args: ['ERASURE'],
    help: ['erasures retry ERASURE', 'have the worker go on with an erasure now, instead of at the next attempt'],
    async run({ db }, [text = '']) {
      const id = idOf('anonymization', text)
      return db.inTransaction({}, async (tx) => {
        const row = await findErasure(tx, { id })
        if (!row) throw new Problem('NOT_FOUND', 'There is no such erasure')
        if (row.status === 'completed') return { requested: 0 }
        await wake(tx, [id])
        await insertAudit(tx, {
          orgId: null,
          actorId: null,
          action: 'ADMIN_ACTION',
          resourceId: row.userId,
          result: 'success',
          context: null,
          details: { operation: 'retry erasure', anonymization_id: formatId('anonymization', id) },
        })
        return { requested: 1 }
      })
    },
  },
  'erasures replay': {
    args: [],
    help: [
      'erasures replay',
      'after the database was restored from a backup: close the accounts that the ledger in the',
      'object store names, and have the worker erase them again; workers do it at their start',
    ],
    async run({ db, store, settings }) {
      return replayLedger({ db, store: await store(), key: settings(ErasureSettings).ERASURE_KEY })
    },
  },
}

const shown = (row: ListedErasure) => ({
  id: formatId('anonymization', row.id),
  user_id: formatId('user', row.userId),
  asked_by: row.askedBy,
  status: row.status,
  requested_at: row.requestedAt,
  completed_at: row.completedAt,
  held_since: row.heldSince,
  open_steps: row.open,
  last_error: row.lastError,
})
