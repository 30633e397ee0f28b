import * as z from 'zod'
import { formatId } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import { json } from '../../lib/runtime/config.ts'
import { type Commands, Failed, idOf, type Options, textOf, UsageError } from '../command-line/command.ts'
import type { Database } from '../db/db.ts'
import { countKeysByMaster, lockKeysOfOtherMasters, rewrapKeys } from './key-queries.ts'
import { AuditKeys, type MasterKeys, openMasterKeys } from './master-keys.ts'
import { acceptRestore } from './restores.ts'
import { verify } from './verify.ts'

const Settings = z.object({ AUDIT_KEYS: json(AuditKeys) })
const BATCH = 500

/** Commands of administrators about the audit log. */
export const auditCommands: Commands = {
  'audit verify': {
    args: [],
    options: { from: 'string', to: 'string' },
    statementTimeoutMs: 3_600_000,
    help: [
      'audit verify [--from DAY] [--to DAY]',
      'prove that no entry of these days (UTC, YYYY-MM-DD; default: all) was changed, removed, moved or added,',
      'or name the first of each chain; exit status 4 then',
    ],
    async run({ db, store }, _, options) {
      const [from, to] = [dayOf(options, 'from'), dayOf(options, 'to')]
      const report = await verify({ db, store: await store() }, { ...(from && { from }), ...(to && { to }) })
      if (report.findings.length > 0) throw new Failed('The audit log is not what was sealed', report)
      return report
    },
  },
  'audit accept-restore': {
    args: ['ENTRY'],
    help: [
      'audit accept-restore ENTRY',
      'say that the restore to an earlier time that this entry of the audit log tells of was yours: what the',
      'anchors knew beyond it is lost and no longer a finding. A restore that you do not know hides a change',
    ],
    async run({ db, store }, [text = '']) {
      const restore = await acceptRestore({ db, store: await store() }, idOf('audit', text))
      if (!restore) throw new Problem('NOT_FOUND', 'No restore has this entry')
      const { entryId, timeline, sealed, anchoredSealed, anchoredAt } = restore
      return {
        entry: formatId('audit', entryId),
        timeline,
        sealed,
        anchored: anchoredSealed,
        anchored_at: anchoredAt,
      }
    },
  },
  'audit rewrap': {
    args: [],
    help: [
      'audit rewrap',
      'wrap the keys of personal data with the current key of AUDIT_KEYS, and count those of each',
    ],
    async run({ db, settings }) {
      const { AUDIT_KEYS: ring } = settings(Settings)
      const rewrapped = await rewrap(db, openMasterKeys(ring))
      const keys = await db.read({}, countKeysByMaster)
      const unused = Object.keys(ring.keys).filter((id) => id !== ring.current && !keys.has(id))
      return {
        rewrapped,
        current: ring.current,
        keys: Object.fromEntries(keys),
        unused,
        ...(unused.length > 0 && {
          note: `Remove ${unused.join(', ')} from AUDIT_KEYS once every backup made before ${new Date().toISOString()} has expired`,
        }),
      }
    },
  },
}

function dayOf(options: Options, name: string): string | undefined {
  const text = textOf(options, name)
  if (text === undefined) return undefined
  const date = new Date(`${text}T00:00:00Z`)
  if (/^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text))
    return text
  throw new UsageError(`--${name} ${text} is not a day, such as 2026-11-25`)
}

/** In short transactions; a command that is interrupted goes on when it is given again. */
async function rewrap(db: Database, masters: MasterKeys): Promise<number> {
  for (let rewrapped = 0; ; ) {
    const n = await db.inTransaction({}, async (tx) => {
      const keys = await lockKeysOfOtherMasters(tx, masters.current, BATCH)
      if (keys.length === 0) return 0
      const wrapped = await Promise.all(
        keys.map(async (key) => ({ ...key, ...(await masters.wrap(await masters.unwrap(key))) })),
      )
      await rewrapKeys(tx, wrapped)
      return keys.length
    })
    if (n === 0) return rewrapped
    rewrapped += n
  }
}
