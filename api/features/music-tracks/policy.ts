import { signedIn } from '../../permissions/facts.ts'
import { onCaller } from '../../permissions/rule.ts'

export const musicTrackActions = {
  list: onCaller('music_track.list', 'list the music tracks for highlights', signedIn),
} as const
