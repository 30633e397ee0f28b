import { type PersonalPart, step } from '../../personal/part.ts'
import { eraseMessages, eraseReceived, passInvitations, RECEIVED_STEP } from './erasure-queries.ts'

export const invitationsPart: PersonalPart = {
  personal: {
    invitations: {
      holds: 'invitations to events',
      kept: 'as long as the event',
      columns: {
        slug: { harmless: 'random' },
        email: { erase: 'row deleted', canary: 'email' },
        phone_number: { erase: 'row deleted', canary: 'phone' },
        user_id: { person: 'gone' },
        message: {
          erase: 'removed from invitations that the person sent; rows of those received are deleted',
          canary: 'text',
        },
        invited_by: { person: { stays: 'of invitations that were answered or revoked before' } },
        former_inviter: { person: 'gone' },
        former_message: { erase: 'removed with the messages of the person', canary: 'text' },
        responded_by: { person: 'gone' },
        response_message: { erase: 'row deleted', canary: 'text' },
      },
    },
  },
  erase: [
    step({
      name: 'invitations.passing',
      // At once: who was invited must not be turned away because the inviter has left.
      phase: 'access',
      does: 'pending invitations that the person sent are those of the owner of the event, or of who becomes its owner; they stay valid, without the message',
      run: async ({ db }, { userId }) => ({ invitations_passed_on: await passInvitations(db, userId) }),
    }),
    step({
      name: RECEIVED_STEP,
      phase: 'texts',
      does: 'invitations to the person, by account, or by an e-mail address or phone number that no other account has, are deleted with the answers',
      run: ({ db }, person) =>
        db.inTransaction({}, async (tx) => ({ invitations_received: await eraseReceived(tx, person) })),
    }),
    step({
      name: 'invitations.sent',
      phase: 'texts',
      does: 'messages in invitations that the person sent are removed',
      run: async ({ db }, { userId }) => ({ messages: await eraseMessages(db, userId) }),
    }),
  ],
}
