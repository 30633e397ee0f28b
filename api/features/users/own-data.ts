import * as z from 'zod'
import type { OwnData } from '../../requests/own-data.ts'
import { outputId, outputTime } from '../../requests/schemas.ts'
import { ownProfile, ownSessions } from './own-data-queries.ts'

export const ownUser: OwnData = {
  sections: [
    {
      name: 'profile',
      title: 'Profile',
      heading: 'display_name',
      record: z.strictObject({
        user_id: outputId('user'),
        display_name: z.string().nullable(),
        email: z.string().nullable(),
        phone_number: z.string().nullable(),
        locale: z.string().nullable(),
        created_at: outputTime(),
      }),
      list: ownProfile,
    },
    {
      name: 'sessions',
      title: 'Sign-ins',
      heading: 'first_seen_at',
      record: z.strictObject({ first_seen_at: outputTime(), last_seen_at: outputTime() }),
      list: ownSessions,
    },
  ],
}
