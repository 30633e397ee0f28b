import { type Commands, Failed, UsageError } from '../command-line/command.ts'
import { deleteOrphans, type OnFolder, type Report, survey } from './orphans.ts'

/** Commands of administrators about the object store. */
export const orphanCommands: Commands = {
  'objects orphans': {
    args: [],
    options: { delete: 'boolean', most: 'boolean' },
    statementTimeoutMs: 60_000,
    help: [
      'objects orphans [--delete [--most]]',
      'after the database was restored from a backup: list the folders of the object store that have no row,',
      'one a line, and count them; with --delete, delete those that are older than a day, and that no legal',
      'hold may be about. Refuses where more than half has no row; --most says that you have looked',
    ],
    async run({ db, store, print }, _, options) {
      const deps = { db, store: await store() }
      const most = options['most'] === true
      if (most && options['delete'] !== true) throw new UsageError('--most goes with --delete')
      const onFolder: OnFolder = (found, state) =>
        print({
          folder: found.path,
          kind: found.kind,
          state,
          objects: found.objects,
          bytes: found.bytes,
          newest: new Date(found.newestMs),
        })
      if (options['delete'] !== true) return shown(await survey(deps, { most }, onFolder))
      const { before, deleted, locked } = await deleteOrphans(deps, { most }, onFolder)
      const result = { ...shown(before), deleted, ...(locked.folders > 0 && { locked }) }
      if (locked.folders > 0) throw new Failed(`The bucket locks ${locked.folders} folders`, result)
      return result
    },
  },
}

const shown = ({ all, unknown, since, until, refused }: Report) => ({
  with_row: all.row,
  orphans: {
    ...all.orphan,
    ...(since !== undefined && until !== undefined && { since: new Date(since), until: new Date(until) }),
  },
  young: all.young,
  held: all.held,
  kept: all.kept,
  unknown,
  ...(refused !== undefined && { refused }),
})
