import * as z from 'zod'
import type { EventRow } from '../../db/schema/events.ts'
import { Can } from '../../permissions/can.ts'
import type { Now } from '../../permissions/permit.ts'
import { isPublicAddress, PUBLIC_ADDRESS } from '../../requests/mail-address.ts'
import {
  bodyId,
  EXAMPLE_ID,
  exampleId,
  NOT_FOUND_ISSUE,
  outputId,
  outputTime,
  text,
  timestamp,
  verbatim,
} from '../../requests/schemas.ts'
import type { Target } from './commands.ts'
import { maskEmail, maskPhone } from './mask.ts'
import { INVITATION, INVITATION_STATES, stateOf } from './policy.ts'
import type { answerInvitation, ListedInvitation } from './queries.ts'
import { parseSlug } from './slug.ts'

const CHANNELS = ['email', 'phone_number', 'uuid'] as const

/** Null is accepted and not documented: in the words of `oneOf`, `{"email": null}` would have an invitee. */
function withoutNull({ jsonSchema }: { jsonSchema: { properties?: Record<string, NullableSchema> } }): void {
  const properties = jsonSchema.properties ?? {}
  for (const channel of CHANNELS) {
    const { anyOf: [given] = [], ...rest } = properties[channel] ?? {}
    properties[channel] = { ...rest, ...given }
  }
}
type NullableSchema = { anyOf?: object[] }

/** Whom to invite: exactly one of three. */
export const NewInvitation = z
  .object({
    // What the sender of mails takes, and no less: a person whose address is refused here is not invited.
    email: text(3, 254)
      .refine(isPublicAddress, 'is not an e-mail address')
      .meta({ format: 'email', pattern: PUBLIC_ADDRESS })
      .nullish(),
    phone_number: z
      .string()
      .trim()
      .regex(/^\+[1-9][0-9]{6,14}$/, 'is not a phone number like +491701234567 (E.164)')
      .nullish()
      .meta({ example: '+491701234567', description: 'E.164' }),
    uuid: bodyId('user').nullish(),
    message: text(0, 1000).nullish().meta({ description: 'From the inviter to the invitee' }),
  })
  .refine((body) => CHANNELS.filter((channel) => (body[channel] ?? null) !== null).length === 1, {
    message: `must have exactly one of ${CHANNELS.join(', ')}`,
  })
  .meta({ oneOf: CHANNELS.map((channel) => ({ required: [channel] })), override: withoutNull })

export const targetOf = ({ email, phone_number, uuid }: z.output<typeof NewInvitation>): Target => ({
  email: email?.toLowerCase() ?? null,
  phoneNumber: phone_number ?? null,
  userId: uuid ?? null,
})

export const Response = z.object({
  response: z.enum(['accept', 'decline']).meta({ id: 'InvitationResponse' }),
  message: text(0, 1000).nullish().meta({ description: 'From the invitee; shown in the list of invitations' }),
  token: verbatim(1024).nullish().meta({
    description:
      'What follows `#t=` in the invitation link. Required unless the caller is the invitee: the invited user, or the user with the invited e-mail address or phone number, verified',
  }),
})

/** What is stored of a new link under an Idempotency-Key: everything but the token, which is derived from it. */
export const StoredLink = z.object({
  id: z.string(),
  slug: z.string(),
  generation: z.int(),
  /** Unix seconds. */
  expires: z.int(),
})

const Slug = z
  .string()
  .regex(/^[2-9A-HJKMNP-Z]{8}$/)
  .meta({ example: 'K7M2QX9A' })

/** An invitation with its current link. */
export const InvitationLink = z
  .object({
    invitation_id: outputId('invitation'),
    slug: Slug.meta({ description: 'Short enough to read out. Identifies the invitation, and is no credential' }),
    invite_url: z.url().meta({
      description:
        'To send to the invitee. The token in the fragment lets anyone who has it respond, once, until `token_expires_at`',
    }),
    qr_png_url: z.url().nullable().meta({
      description: 'A QR code of `invite_url`, PNG, 512 × 512. Works without a token as long as `invite_url` does',
    }),
    token_expires_at: outputTime(),
  })
  .meta({ id: 'InvitationLink' })

export const linkExample: z.output<typeof InvitationLink> = {
  invitation_id: exampleId('invitation'),
  slug: 'K7M2QX9A',
  invite_url: 'https://app.example.org/i/K7M2QX9A#t=eyJhbGciOiJIUzI1NiJ9.eyJnZW4iOjF9.c2lnbmF0dXJl',
  qr_png_url: `https://api.example.org/v1/q/k1.stifk0.c2lnbmF0dXJlIG9mIDE2IGI/${EXAMPLE_ID}/1.png`,
  token_expires_at: '2026-11-21T10:30:00.000Z',
}

const Invitee = z
  .object({
    email: z.string().nullable().meta({ description: 'Masked', example: 'a***@example.org' }),
    phone_number: z.string().nullable().meta({ description: 'Masked', example: '+49********67' }),
    user_id: outputId('user').nullable(),
    display_name: z.string().nullable().meta({ description: 'Of a user who is a member of the organization' }),
  })
  .meta({ id: 'Invitee' })

const State = z.enum(INVITATION_STATES).meta({
  id: 'InvitationState',
  description:
    'expired: pending, and its token is no longer valid. A reissue makes it pending again. revoked: the invitee was removed from the organization',
})

export const Invitation = z
  .object({
    invitation_id: outputId('invitation'),
    slug: Slug,
    status: State,
    channel: z.enum(CHANNELS).meta({ id: 'InvitationChannel' }),
    invitee: Invitee,
    invited_by: outputId('user').meta({ description: 'Who made the current link' }),
    message: z.string().nullable().meta({ description: 'What the inviter wrote to the invitee' }),
    created_at: outputTime(),
    token_expires_at: outputTime(),
    responded_at: outputTime().nullable(),
    responded_by: outputId('user').nullable().meta({
      description:
        'An addition to the interface specification. Who answered, which may be someone else than the invitee who had the link; null until then',
    }),
    response_message: z.string().nullable().meta({ description: 'What the invitee wrote with the response' }),
    opened_at: outputTime().nullable(),
    clicked_at: outputTime().nullable(),
    can: Can,
  })
  .meta({ id: 'Invitation' })

export const invitationExample: z.output<typeof Invitation> = {
  invitation_id: linkExample.invitation_id,
  slug: linkExample.slug,
  status: 'pending',
  channel: 'email',
  invitee: { email: 'b***@example.org', phone_number: null, user_id: null, display_name: null },
  invited_by: exampleId('user'),
  message: 'It has been too long.',
  created_at: '2026-11-21T09:30:00.000Z',
  token_expires_at: linkExample.token_expires_at,
  responded_at: null,
  responded_by: null,
  response_message: null,
  opened_at: null,
  clicked_at: null,
  can: ['invitation.reissue'],
}

export const toInvitation = (
  row: ListedInvitation,
  event: Pick<EventRow, 'ownerId' | 'status'>,
  now: Now,
): z.input<typeof Invitation> => ({
  invitation_id: row.id,
  slug: row.slug,
  status: stateOf(row),
  channel: row.email !== null ? 'email' : row.phoneNumber !== null ? 'phone_number' : 'uuid',
  invitee: {
    email: row.email && maskEmail(row.email),
    phone_number: row.phoneNumber && maskPhone(row.phoneNumber),
    user_id: row.userId,
    display_name: row.displayName,
  },
  invited_by: row.invitedBy,
  message: row.message,
  created_at: `${row.createdAt.slice(0, 23)}Z`,
  token_expires_at: timestamp(row.tokenExpiresAt),
  responded_at: timestamp(row.respondedAt),
  responded_by: row.respondedBy,
  response_message: row.responseMessage,
  opened_at: timestamp(row.openedAt),
  clicked_at: timestamp(row.clickedAt),
  // A token is presented with a request to respond only.
  can: now(INVITATION, { ...row, ownerId: event.ownerId, eventStatus: event.status, isPresented: false }),
})

export const Answer = z
  .object({
    invitation_id: outputId('invitation'),
    event_id: outputId('event'),
    org_id: outputId('organization').meta({ description: 'Of the event' }),
    status: z.enum(['accepted', 'declined']).meta({ id: 'AnsweredInvitationState' }),
    responded_at: outputTime(),
  })
  .meta({ id: 'InvitationAnswer' })

export const toAnswer = (row: Awaited<ReturnType<typeof answerInvitation>>): z.input<typeof Answer> => ({
  invitation_id: row.id,
  event_id: row.eventId,
  org_id: row.orgId,
  status: row.status === 'accepted' ? 'accepted' : 'declined',
  responded_at: timestamp(row.respondedAt),
})

export const answerExample: z.output<typeof Answer> = {
  invitation_id: exampleId('invitation'),
  event_id: exampleId('event'),
  org_id: exampleId('organization'),
  status: 'accepted',
  responded_at: '2026-11-21T09:30:00.000Z',
}

const MORE = 'Null unless the request presents the token of the link, or the caller is the invitee'

export const Shown = z
  .object({
    invitation_id: outputId('invitation'),
    title: z.string().meta({ description: 'Of the event', example: 'Class reunion' }),
    host_name: z
      .string()
      .nullable()
      .meta({ description: 'Display name of the event’s owner; null after the owner has left', example: 'Ann' }),
    start_at: outputTime().nullable().meta({ description: MORE }),
    end_at: outputTime().nullable(),
    location_name: z.string().nullable().meta({ description: MORE }),
    organization_name: z
      .string()
      .nullable()
      .meta({
        description: `Of the organization that an accepted invitation makes the invitee a member of. ${MORE}`,
      }),
    message: z
      .string()
      .nullable()
      .meta({ description: `What the inviter wrote to the invitee. ${MORE}` }),
  })
  .meta({ id: 'InvitationShown' })

/** The same whether or not there is such an invitation. */
export const RenewalAccepted = z
  .object({ accepted: z.boolean().meta({ description: 'Always true' }) })
  .meta({ id: 'InvitationRenewalAccepted', description: 'Says nothing about the invitation' })

/** As the OpenAPI document describes it. */
export const PresentedToken = z.object({
  'X-Invitation-Token': z.string().optional().meta({
    description: 'The token of the invitation link. One that is not valid any more is as none',
  }),
})

export const pathSlug = z
  .string()
  .meta({ description: 'In upper or lower case', pattern: '^[2-9A-HJKMNP-Za-hjkmnp-z]{8}$', example: 'K7M2QX9A' })
  .transform((given, ctx) => parseSlug(given) ?? notASlug(ctx))

function notASlug(ctx: z.core.$RefinementCtx): never {
  ctx.addIssue({ code: 'custom', message: 'does not exist', params: { means: NOT_FOUND_ISSUE } })
  return z.NEVER
}
