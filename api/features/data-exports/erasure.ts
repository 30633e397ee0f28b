import { type PersonalPart, step } from '../../personal/part.ts'
import { endExportsOfOthers, eraseExportsOf } from './commands.ts'

export const dataExportsPart: PersonalPart = {
  personal: {
    data_exports: {
      holds: 'requests for a copy of what a person has here, or of an event',
      kept: '7 days after the copy was ready',
      columns: {
        user_id: { person: 'gone' },
        holder: { harmless: 'the worker that makes it' },
        error: { harmless: 'why an attempt failed' },
        event_id: { harmless: 'the id of an event' },
        event_title: { erase: 'removed where the person owned the event', canary: 'text' },
        event_owner_id: { person: 'gone' },
        failure: { harmless: 'a closed list' },
      },
    },
    data_export_people: {
      holds: 'whose data are in the export of an event',
      kept: 'as long as its archives',
      columns: { user_id: { person: 'gone' } },
    },
    data_export_parts: {
      holds: 'the archives of such a copy',
      kept: 'as long as it',
      columns: {
        user_id: { person: 'gone' },
        key: { harmless: 'the key of an object, made of ids' },
        holder: { harmless: 'the worker that makes it' },
        error: { harmless: 'why an attempt failed' },
      },
    },
    data_export_entries: {
      holds: 'the files of its archives',
      kept: 'as long as it',
      columns: {
        media_id: { harmless: 'the id of a media item' },
        path: { erase: 'rows deleted', canary: 'text' },
        wanted_key: { erase: 'rows deleted', canary: 'text' },
        path_key: { erase: 'rows deleted', canary: 'text' },
        mime_type: { harmless: 'a closed list' },
        highlight_id: { harmless: 'the id of a highlight' },
        object_key: { harmless: 'the key of an object, made of ids' },
      },
    },
  },
  erase: [
    step({
      name: 'exports.end',
      phase: 'access',
      does: 'copies that were asked for are ended, also one that is being made',
      run: ({ db }, { userId }) =>
        db.inTransaction({}, async (tx) => {
          await eraseExportsOf(tx, userId)
          return {}
        }),
    }),
    step({
      name: 'exports.of-others',
      phase: 'access',
      does: 'exports of events that others asked for are ended where they have anything of the person',
      run: ({ db }, { userId }) =>
        db.inTransaction({}, async (tx) => ({ exports_of_others: await endExportsOfOthers(tx, userId) })),
    }),
  ],
}
