import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import { AT, madeOnce, type Part, word } from '../../../support/society.ts'
import { deliveries } from '../media/society/deliveries.ts'

interface Track {
  id: Uuid
  wireId: string
  title: string
  license: string
  attribution: string
  content: string
  isRetired: boolean
}

export const tracksOf = madeOnce((society): Track[] => {
  const { draw, insert, act, api } = society
  const tracks = draw.times(1, 3, (): Track => {
    const id = newUuid()
    return {
      ...{ id, wireId: formatId('track', id), isRetired: draw.rarely(3) },
      ...{ title: word('Track'), license: word('License'), attribution: word('Attribution'), content: word('Content') },
    }
  })
  for (const { id, title, license, attribution } of tracks) {
    const file = { duration_sec: 9, mime_type: 'audio/mpeg', file_size_bytes: 1, created_at: AT }
    insert('music_tracks', { id, title, license, attribution, ...file })
  }
  act(async () => {
    // Tracks are those of the whole service, so also of the societies before this one.
    const offered = tracks.filter(({ isRetired }) => !isRetired).map(({ id }) => id)
    await api.database.admin.query('update music_tracks set retired_at = now() where id <> all($1)', [offered])
    for (const { id, content } of tracks) {
      await api.store.put(keyOf(id), content, { contentType: 'audio/mpeg' })
    }
  })
  return tracks
})
const keyOf = (id: Uuid) => `tracks/${id}/audio`

export const part: Part = {
  of: tracksOf,
  ask(society) {
    const offered = tracksOf(society).filter(({ isRetired }) => !isRetired)
    const tracks = offered
      .toSorted((a, b) => (a.title < b.title ? -1 : 1))
      .map(({ id, wireId, title, license, attribution }) => ({
        ...{ music_track_id: wireId, title, license, attribution, preview_url: keyOf(id) },
      }))
    return [{ route: 'listMusicTracks', want: { tracks } }]
  },
  askAsNobody: (society) =>
    deliveries(
      society,
      tracksOf(society).map(({ id, content, isRetired }) => ({
        ...{ key: keyOf(id), content: isRetired ? undefined : content },
      })),
    ),
}
