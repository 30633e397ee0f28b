import { formatId } from '../../../lib/contract/ids.ts'
import { type Commands, idOf, textOf, UsageError } from '../../command-line/command.ts'
import { addTrack, retireTrack } from './commands.ts'
import { withInput } from './input.ts'
import { listTracks } from './queries.ts'

/** Commands of administrators. */
export const musicTrackCommands: Commands = {
  'track add': {
    args: ['FILE'],
    options: { title: 'string', license: 'string', attribution: 'string' },
    help: [
      'track add FILE --title TITLE --license LICENSE --attribution ATTRIBUTION',
      'offer an audio file as music for highlights; users are shown all three texts.',
      'FILE -: read it from standard input',
    ],
    async run({ db, store, input }, [file = ''], options) {
      const title = textOf(options, 'title')
      const license = textOf(options, 'license')
      const attribution = textOf(options, 'attribution')
      if (title === undefined || license === undefined || attribution === undefined) {
        throw new UsageError('track add needs --title, --license and --attribution')
      }
      const opened = await store()
      const add = (path: string) => addTrack(db, opened, { file: path, title, license, attribution })
      return shown(file === '-' ? await withInput(input(), add) : await add(file))
    },
  },
  'track list': {
    args: [],
    help: ['track list', 'list the music tracks, with those that are retired'],
    async run({ db }) {
      const tracks = await db.read({}, (tx) => listTracks(tx, { retired: true }))
      return { tracks: tracks.map(shown) }
    },
  },
  'track retire': {
    args: ['TRACK'],
    help: ['track retire TRACK', 'hide a track from new highlights; those that use it stay as they are'],
    run: async ({ db }, [track = '']) => shown(await retireTrack(db, idOf('track', track))),
  },
}

const shown = (row: Awaited<ReturnType<typeof addTrack>>) => ({
  music_track_id: formatId('track', row.id),
  title: row.title,
  license: row.license,
  attribution: row.attribution,
  duration_sec: row.durationSec,
  mime_type: row.mimeType,
  file_size_bytes: row.fileSizeBytes,
  retired: row.retiredAt !== null,
})
