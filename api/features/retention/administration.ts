import { RETENTION_TARGETS, type RetentionTarget } from '../../../crds/retention-rules.ts'
import { formatId } from '../../../lib/contract/ids.ts'
import { type Commands, idOf, textOf, UsageError } from '../../command-line/command.ts'
import { HOLD_KINDS, type HoldKind, type LegalHoldRow, listHolds } from './hold-queries.ts'
import { addHold, ID_KIND_OF, releaseHold } from './holds.ts'
import { type HeldBack, listRefused } from './sweep-queries.ts'
import { confirmSweep } from './sweeps.ts'

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
    help: [
      'hold release HOLD',
      'end a hold; within a day what it kept is due again, and erasures that waited for it go on at once',
    ],
    async run({ db }, [text = '']) {
      const { released, ...row } = await releaseHold(db, idOf('hold', text))
      return { ...shown(row), released }
    },
  },
  'sweep list': {
    args: [],
    help: ['sweep list', 'show what no policy governs and the worker does not purge before you have looked, and why'],
    async run({ db }) {
      const rows = await db.read({}, listRefused)
      return { held_back: rows.map(shownSweep) }
    },
  },
  'sweep confirm': {
    args: ['TARGET'],
    options: { due: 'string' },
    help: [
      'sweep confirm TARGET --due COUNT',
      'let the worker purge so many of TARGET for good; COUNT is what sweep list shows. It begins within',
      'some minutes, and asks again if more than a fifth more are due by then',
    ],
    async run({ db }, [text = ''], options) {
      const due = Number(textOf(options, 'due') ?? Number.NaN)
      if (!Number.isSafeInteger(due) || due < 0) throw new UsageError('sweep confirm needs --due, a number')
      return { confirmed: shownSweep(await confirmSweep(db, asTarget(text), due)) }
    },
  },
}

function asTarget(text: string): RetentionTarget {
  const target = RETENTION_TARGETS.find((known) => known === text)
  if (!target) throw new UsageError(`${text} is not a target; the targets are ${RETENTION_TARGETS.join(', ')}`)
  return target
}

const shownSweep = (row: HeldBack) => ({
  target: row.target,
  due: row.due,
  refused: row.refused,
  reason: row.reason,
  since: row.since,
  last_sweep: row.clockAt,
  confirmed_due: row.confirmedDue,
})

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
