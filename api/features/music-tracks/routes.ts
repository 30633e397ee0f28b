import type * as z from 'zod'
import { trackKey } from '../../../lib/contract/object-keys.ts'
import type { ApiDeps } from '../../deps.ts'
import { type Route, route } from '../../http/route.ts'
import { EXAMPLE_ID, exampleId } from '../../requests/schemas.ts'
import { musicTrackActions } from './policy.ts'
import { listTracks } from './queries.ts'
import { MusicTracks } from './track.ts'

const example: z.output<typeof MusicTracks> = {
  tracks: [
    {
      music_track_id: exampleId('track'),
      title: 'Evening by the lake',
      duration_sec: 94.5,
      license: 'CC BY 4.0',
      attribution: 'Evening by the lake, by Ann Example',
      preview_url: `https://api.example.org/v1/d/a.t2x1c0.1qbzz4YvT0iQm3o9Wc2r6A/tracks/${EXAMPLE_ID}/audio`,
    },
  ],
  expires_in: 3600,
}

/** The music for highlights. */
export const musicTrackRoutes = ({ db, links }: ApiDeps): Route[] => [
  route({
    method: 'get',
    path: '/api/music-tracks',
    operationId: 'listMusicTracks',
    tags: ['Highlights'],
    summary: 'List the music tracks for highlights, by title',
    description:
      'For every user. Show license and attribution with each track. A track that an administrator has retired is not listed; highlights that use it stay as they are.',
    action: musicTrackActions.list,
    status: 200,
    response: MusicTracks,
    examples: { response: example },
    async handle() {
      const rows = await db.readAtOnce({}, (tx) => listTracks(tx))
      const tracks = rows.map((row) => ({
        music_track_id: row.id,
        title: row.title,
        duration_sec: row.durationSec,
        license: row.license,
        attribution: row.attribution,
        preview_url: links.url(trackKey(row.id)),
      }))
      return { data: { tracks, expires_in: links.expiresIn } }
    },
  }),
]
