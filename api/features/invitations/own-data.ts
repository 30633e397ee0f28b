import * as z from 'zod'
import { type OwnData, titleIfSeen } from '../../requests/own-data.ts'
import { outputId, outputTime } from '../../requests/schemas.ts'
import { ownReceivedInvitations, ownSentInvitations } from './own-data-queries.ts'

export const ownInvitations: OwnData = {
  sections: [
    {
      name: 'invitations_received',
      title: 'Invitations to you',
      heading: 'event_title',
      record: z.strictObject({
        invitation_id: outputId('invitation'),
        event_id: outputId('event'),
        event_title: titleIfSeen,
        start_at: outputTime().nullable(),
        message: z.string().nullable(),
        status: z.string(),
        response_message: z.string().nullable(),
        created_at: outputTime(),
        responded_at: outputTime().nullable(),
        opened_at: outputTime().nullable(),
        clicked_at: outputTime().nullable(),
      }),
      list: ownReceivedInvitations,
    },
    {
      name: 'invitations_sent',
      title: 'Invitations by you',
      heading: 'event_title',
      record: z.strictObject({
        invitation_id: outputId('invitation'),
        event_id: outputId('event'),
        event_title: titleIfSeen,
        email: z.string().nullable(),
        phone_number: z.string().nullable(),
        user_id: outputId('user').nullable(),
        message: z.string().nullable(),
        status: z.string(),
        created_at: outputTime(),
      }),
      list: ownSentInvitations,
    },
  ],
}
