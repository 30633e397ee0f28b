import type { PersonalPart } from '../../personal/part.ts'

const OF_ADMINISTRATOR = { harmless: 'of an administrator' }

export const musicTracksPart: PersonalPart = {
  personal: {
    music_tracks: {
      holds: 'music for highlights',
      kept: 'always',
      columns: {
        title: OF_ADMINISTRATOR,
        licence: OF_ADMINISTRATOR,
        license: OF_ADMINISTRATOR,
        attribution: OF_ADMINISTRATOR,
        mime_type: OF_ADMINISTRATOR,
      },
    },
  },
  erase: [],
}
