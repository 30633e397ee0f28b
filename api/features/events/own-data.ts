import * as z from 'zod'
import type { OwnData } from '../../requests/own-data.ts'
import { outputId, outputTime } from '../../requests/schemas.ts'
import { ownEvents, ownParticipations } from './own-data-queries.ts'

export const ownEventData: OwnData = {
  sections: [
    {
      name: 'events',
      title: 'Your events',
      heading: 'title',
      record: z.strictObject({
        event_id: outputId('event'),
        org_id: outputId('organization'),
        title: z.string(),
        description: z.string().nullable(),
        start_at: outputTime(),
        end_at: outputTime().nullable(),
        location_name: z.string().nullable(),
        latitude: z.number().nullable(),
        longitude: z.number().nullable(),
        status: z.string(),
        created_at: outputTime(),
      }),
      list: ownEvents,
    },
    {
      name: 'participations',
      title: 'Events you take part in',
      heading: 'title',
      record: z.strictObject({
        event_id: outputId('event'),
        title: z.string(),
        start_at: outputTime(),
        status: z.string(),
        joined_at: outputTime().nullable(),
      }),
      list: ownParticipations,
    },
  ],
}
