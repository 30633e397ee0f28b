import { formatId } from '../../../lib/contract/ids.ts'
import { type Commands, idOf, textOf, UsageError } from '../../command-line/command.ts'
import { isState, listForAdministrators, retryExport } from './administration-queries.ts'

const MAX_LISTED = 200

/** Commands of administrators. */
export const dataExportCommands: Commands = {
  'data-exports list': {
    args: [],
    options: { state: 'string' },
    help: [
      'data-exports list [--state STATE]',
      `show the latest ${MAX_LISTED} exports of people’s own data, of one state: planning, making, completed, failed`,
      'or removed',
    ],
    async run({ db }, _, options) {
      const state = textOf(options, 'state')
      if (state !== undefined && !isState(state)) throw new UsageError(`${state} is not a state of an export`)
      const rows = await db.read({}, (tx) => listForAdministrators(tx, { state, limit: MAX_LISTED }))
      return {
        exports: rows.map(({ row, parts, made, partError }) => ({
          export_id: formatId('export', row.id),
          user_id: formatId('user', row.userId),
          state: row.state,
          parts,
          parts_made: made,
          error: row.error ?? partError,
          created_at: row.createdAt.toISOString(),
          completed_at: row.completedAt?.toISOString() ?? null,
          expires_at: row.expiresAt?.toISOString() ?? null,
        })),
      }
    },
  },
  'data-exports retry': {
    args: ['EXPORT'],
    help: ['data-exports retry EXPORT', 'let a failed export go on; parts that it has are kept'],
    async run({ db }, [given = '']) {
      const id = idOf('export', given)
      return { retried: await db.inTransaction({}, (tx) => retryExport(tx, id)) }
    },
  },
}
