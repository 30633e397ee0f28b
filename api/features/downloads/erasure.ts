import { type PersonalPart, step } from '../../personal/part.ts'
import { deleteDownloadObjects, endDownloadsOf } from './downloads.ts'

export const downloadsPart: PersonalPart = {
  personal: {
    downloads: {
      holds: 'exports that a person can download',
      kept: '7 days',
      columns: { user_id: { person: 'gone' } },
    },
    removed_downloads: {
      holds: 'exports whose files are being removed',
      kept: '7 days after they ended',
      columns: { user_id: { person: { stays: 'until the last look for files, 7 days later' } } },
    },
  },
  erase: [
    step({
      name: 'downloads.end',
      phase: 'access',
      does: 'links to exports end',
      run: ({ db }, { userId }) =>
        db.inTransaction({}, async (tx) => {
          await endDownloadsOf(tx, userId)
          return {}
        }),
    }),
    step({
      name: 'downloads.files',
      phase: 'files',
      does: 'the files of exports are deleted',
      run: async ({ store }, { userId }) => ({ download_objects: await deleteDownloadObjects({ store }, userId) }),
    }),
  ],
}
