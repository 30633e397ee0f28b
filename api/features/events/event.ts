import * as z from 'zod'
import { Can } from '../../permissions/can.ts'
import { inputTime, outputId, outputTime, text } from '../../requests/schemas.ts'
import { OwnReaction, ReactionCounts } from '../reaction-counts/reaction-counts.ts'
import type { EventChanges } from './plan.ts'

export const EventStatus = z
  .enum(['draft', 'active', 'archived'])
  .meta({ id: 'EventStatus', description: 'draft → active → archived; an archived event is read-only' })

const ParticipantStatus = z.enum(['invited', 'accepted', 'declined']).meta({ id: 'ParticipantStatus' })

const BOUNDS = [
  { name: 'latitude', most: 90 },
  { name: 'longitude', most: 180 },
]

/** A list of two, not a tuple: generators of clients know no tuples. */
const LocationGeo = z
  .array(z.number().min(-180).max(180))
  .length(2, 'must have two numbers: [latitude, longitude]')
  .check(({ value, issues }) => {
    for (const [i, { name, most }] of BOUNDS.entries()) {
      const given = value[i]
      if (given === undefined || Math.abs(given) <= most) continue
      issues.push({
        code: 'custom',
        path: [i],
        message: `the ${name} must be between -${most} and ${most}`,
        input: given,
      })
    }
  })
  .meta({
    id: 'LocationGeo',
    description:
      '`[latitude, longitude]` in degrees (WGS 84), **latitude first**. GeoJSON has the REVERSE order: swap the two numbers when converting. The latitude is between -90 and 90, the longitude between -180 and 180',
    example: [35.6586, 139.7454],
  })

const Title = text(1, 200)
const optional = {
  description: text(0, 5000).nullish(),
  end_at: inputTime().nullish().meta({ description: 'Not before `start_at`' }),
  location_name: text(0, 300).nullish(),
  location_geo: LocationGeo.nullish(),
}

export const BEFORE_START = 'must not be before start_at'

export const CreateEvent = z
  .object({ title: Title, start_at: inputTime(), ...optional })
  .refine(({ start_at, end_at }) => !end_at || end_at >= start_at, { path: ['end_at'], message: BEFORE_START })
export type CreateEvent = z.output<typeof CreateEvent>

/** Which of the fields a request sets; unknown ones do not count. */
export const fieldsOf = (changes: EventChanges): string[] =>
  Object.entries(changes).flatMap(([name, value]) => (value === undefined ? [] : [name]))

export const UpdateEvent = z
  .object({ title: Title.optional(), start_at: inputTime().optional(), ...optional })
  .refine((changes) => fieldsOf(changes).length > 0, 'names no field that can be changed')
  .meta({ minProperties: 1 })

const Count = z
  .int()
  .min(0)
  .max(2 ** 31 - 1)

export const Event = z
  .object({
    event_id: outputId('event'),
    org_id: outputId('organization'),
    owner_id: outputId('user'),
    host_name: z
      .string()
      .nullable()
      .meta({ description: 'Display name of the owner; null after the owner has left the organization' }),
    title: z.string(),
    description: z.string().nullable(),
    start_at: outputTime(),
    end_at: outputTime().nullable(),
    location_name: z.string().nullable(),
    location_geo: LocationGeo.nullable(),
    status: EventStatus,
    created_at: outputTime(),
    updated_at: outputTime(),
    activated_at: outputTime().nullable(),
    archived_at: outputTime().nullable(),
    purge_at: outputTime().nullable().meta({
      description:
        'When an archived event is deleted for good, with its album, comments, reactions and invitations, and with the media items that were added for it alone. Null before it is archived, and where the installation keeps archived events',
    }),
    participant_count: Count.meta({ description: 'Those who have accepted, the owner included' }),
    my_participation: ParticipantStatus.nullable().meta({ description: 'Null unless the caller is invited' }),
    my_invitation_id: outputId('invitation').nullable().meta({
      description:
        'An addition to the interface specification. The invitation that the caller can answer now without a token, with `POST /api/invitations/{invitation_id}/respond`: addressed to the caller by user id, and pending. Null otherwise, and unless the event is active. An invitation by e-mail address or phone number is answered from its link',
    }),
    album_id: outputId('album').nullable().meta({ description: 'Null without an album that the caller can see' }),
    reaction_counts: ReactionCounts,
    my_reaction: OwnReaction.nullable(),
    can: Can,
  })
  .meta({ id: 'Event' })
export type Event = z.input<typeof Event>

export const ListedEvent = Event.omit({ can: true }).meta({ id: 'ListedEvent' })
export type ListedEvent = z.input<typeof ListedEvent>

/** One of the events of the caller, in whichever organization. */
export const OwnEvent = ListedEvent.extend({
  org_name: z.string(),
  as_guest: z.boolean().meta({ description: 'Whether the caller is no member of the organization' }),
}).meta({ id: 'OwnEvent' })
export type OwnEvent = z.input<typeof OwnEvent>

export const Participant = z
  .object({
    user_id: outputId('user'),
    display_name: z.string().nullable(),
    status: ParticipantStatus,
    joined_at: outputTime().nullable().meta({ description: 'When the user accepted' }),
  })
  .meta({ id: 'Participant' })
export type Participant = z.input<typeof Participant>

export const ParticipantTotal = Count.meta({
  description: 'Length of the whole list, the invited and declined included',
})
