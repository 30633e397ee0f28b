import { formatId } from '../../../lib/contract/ids.ts'
import { type Commands, idOf, textOf, UsageError } from '../../command-line/command.ts'
import { HOLD_KINDS, type HoldKind, type LegalHoldRow, listHolds } from './hold-queries.ts'
import { addHold, ID_KIND_OF, releaseHold } from './holds.ts'

const MAX_LISTED = 500
const MAX_TEXT = 200

/** Commands of administrators. */
export const retentionCommands: Commands = {
  'hold add': {
    args: ['KIND', 'SUBJECT'],
    options: { reason: 'string', by: 'string' },
    help: [
      'hold add KIND SUBJECT --reason REASON --by WHO',
      'keep everything of a person, event or organization (KIND) from being purged, by policies, by the',
      'worker and by an erasure, until the hold is released. SUBJECT is its id; REASON is the reference of',
      'the case, WHO asked for it: no names of others',
    ],
    async run({ db }, [kindText = '', text = ''], options) {
      const kind = asKind(kindText)
      const [reason, placedBy] = [textOf(options, 'reason')?.trim(), textOf(options, 'by')?.trim()]
      if (!reason || !placedBy) throw new UsageError('hold add needs --reason and --by')
      if (reason.length > MAX_TEXT || placedBy.length > MAX_TEXT) {
        throw new UsageError(`--reason and --by have at most ${MAX_TEXT} characters`)
      }
      const { added, ...row } = await addHold(db, { kind, subject: idOf(ID_KIND_OF[kind], text), reason, placedBy })
      return { ...shown(row), added }
    },
  },
  'hold list': {
    args: [],
    options: { all: 'boolean' },
    help: ['hold list [--all]', `show the holds in force, or all; the latest ${MAX_LISTED}`],
    async run({ db }, _, options) {
      const rows = await db.read({}, (tx) => listHolds(tx, { released: options['all'] === true, limit: MAX_LISTED }))
      return { holds: rows.map(shown) }
    },
  },
  'hold release': {
    args: ['HOLD'],
    help: ['hold release HOLD', 'end a hold; what is due is purged within about an hour after it, or by the next run'],
    async run({ db }, [text = '']) {
      const { released, ...row } = await releaseHold(db, idOf('hold', text))
      return { ...shown(row), released }
    },
  },
}

function asKind(text: string): HoldKind {
  const kind = HOLD_KINDS.find((known) => known === text)
  if (!kind) throw new UsageError(`${text} is not a kind of hold; the kinds are ${HOLD_KINDS.join(', ')}`)
  return kind
}

const shown = (row: LegalHoldRow) => ({
  hold_id: formatId('hold', row.id),
  kind: row.kind,
  subject: formatId(ID_KIND_OF[row.kind], row.subject),
  reason: row.reason,
  by: row.placedBy,
  created_at: row.createdAt,
  released_at: row.releasedAt,
})
