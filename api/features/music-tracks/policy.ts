import { signedIn } from '../../permissions/facts.ts'
import { onCaller } from '../../permissions/rule.ts'

export const musicTrackActions = {
  'music_track.list': onCaller('list the music tracks for highlights', signedIn),
} as const
