import * as z from 'zod'
import { outputId } from '../../requests/schemas.ts'

const MusicTrack = z
  .object({
    music_track_id: outputId('track'),
    title: z.string(),
    duration_sec: z.number().min(0).max(86_400),
    license: z.string(),
    attribution: z.string().meta({ description: 'To be shown wherever the track can be heard' }),
    preview_url: z.string(),
  })
  .meta({ id: 'MusicTrack' })

export const MusicTracks = z
  .object({
    tracks: z.array(MusicTrack),
    expires_in: z.int().min(1).max(86_400).meta({ description: 'Minimum number of seconds for which the links work' }),
  })
  .meta({ id: 'MusicTracks' })
export type MusicTracks = z.input<typeof MusicTracks>
