import * as z from 'zod'
import type { OwnData } from '../../requests/own-data.ts'
import { outputId, outputTime } from '../../requests/schemas.ts'
import { ownDevices, ownPreferences } from './own-data-queries.ts'

/** What was sent is not in it: invitations and comments, which it was made of, are exported as such. */
export const ownNotifications: OwnData = {
  sections: [
    {
      name: 'notification_preferences',
      title: 'Which notifications you chose',
      heading: 'template',
      record: z.strictObject({
        channel: z.string(),
        template: z.string(),
        enabled: z.boolean(),
        updated_at: outputTime(),
      }),
      list: ownPreferences,
    },
    {
      name: 'devices',
      title: 'Devices that get push messages',
      heading: 'kind',
      record: z.strictObject({
        device_id: outputId('device'),
        kind: z.string(),
        created_at: outputTime(),
        registered_at: outputTime(),
      }),
      list: ownDevices,
    },
  ],
}
