import { findKey } from '../../audit/key-queries.ts'
import { type PersonalPart, step } from '../../personal/part.ts'
import { eraseAuditExportsOf, renewAuditExports } from './export-commands.ts'

export const auditLogPart: PersonalPart = {
  personal: {
    audit_archives: {
      holds: 'where the days of the audit log lie that have left the database',
      kept: '7 years',
      columns: {
        object_key: { harmless: 'the key of an object, made of the day' },
        left_key: { harmless: 'the key of an object, made of the day' },
        sha256: { harmless: 'a digest' },
        members: { person: { stays: 'the ids of the first actors of its pieces, as in the log' } },
        previous_sha256: { harmless: 'a digest' },
        manifest_sha256: { harmless: 'a digest' },
      },
    },
    audit_exports: {
      holds: 'files of entries that an administrator asked for',
      kept: '7 days after they were ready, and no longer than until the erasure of a person whose entries they can have',
      columns: {
        user_id: { person: 'gone' },
        filters: { person: { stays: 'the ids that the administrator looked for, until the export ends' } },
        position_at: { harmless: 'a time' },
        position_id: { harmless: 'the id of an entry' },
        object_key: { harmless: 'the key of an object, made of ids' },
        upload_id: { harmless: 'of an upload to the object store' },
        etags: { harmless: 'digests' },
        holder: { harmless: 'the worker that makes it' },
        error: { harmless: 'why an attempt failed' },
      },
    },
  },
  erase: [
    step({
      name: 'audit.exports',
      phase: 'access',
      does: 'exports of the audit log that the person asked for are ended, with their files',
      run: ({ db }, { userId }) =>
        db.inTransaction({}, async (tx) => {
          await eraseAuditExportsOf(tx, userId)
          return {}
        }),
    }),
    {
      name: 'audit.exports-of-others',
      phase: 'identity',
      does: 'exports of the audit log that other administrators asked for, and that can have entries of the person, end with their files; those under way begin again',
      async run({ db, store }, { userId }) {
        // An export that is made before the keys are gone has the address of the person. The exporter reads keys anew for each
        // attempt.
        const key = await db.read({}, (tx) => findKey(tx, userId, new Date().getUTCFullYear()))
        if (key !== 'shredded') return { counts: {}, isWaiting: true }
        const { ended, prefixes } = await db.inTransaction({}, (tx) => renewAuditExports(tx, userId))
        for (const prefix of prefixes) await store.deletePrefix(prefix)
        return { counts: { audit_exports: ended } }
      },
    },
  ],
}
