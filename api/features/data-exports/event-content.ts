import * as z from 'zod'
import { formatId } from '../../../lib/contract/ids.ts'
import type { Tx } from '../../db/db.ts'
import type { OwnFiles } from '../../requests/own-data.ts'
import { outputId, outputTime } from '../../requests/schemas.ts'
import { maskEmail, maskPhone } from '../invitations/mask.ts'
import type { ExportContent, ExportPage, ExportRow, ExportSection } from './content.ts'
import {
  findSeenFilms,
  findSeenMedia,
  nextSeenFilm,
  type SeenPage,
  seenAlbum,
  seenComments,
  seenEvent,
  seenFiles,
  seenFilms,
  seenInvitations,
  seenMedia,
  seenParticipants,
} from './event-content-queries.ts'
import { sightOf } from './event-sight.ts'

const Name = z
  .string()
  .nullable()
  .meta({ description: 'As members see it; null of who is no member and no guest any more' })
const Reactions = z.record(z.string(), z.int()).nullable().meta({ description: 'How many, by emoji; null without any' })
const Count = z.int()

/** What the person sees of the event as each batch is read. */
const seen =
  (list: (tx: Tx, page: SeenPage) => Promise<ExportRow[]>): ExportSection['list'] =>
  async (tx, { of, ...page }) =>
    list(tx, { sight: await sightOf(tx, of), ...page })

const invitations = async (tx: Tx, page: ExportPage): Promise<ExportRow[]> =>
  (await seen(seenInvitations)(tx, page)).map(({ email, phone_number: number, ...row }) => ({
    ...row,
    key: row.key,
    email: typeof email === 'string' ? maskEmail(email) : null,
    phone_number: typeof number === 'string' ? maskPhone(number) : null,
  }))

const SECTIONS: readonly ExportSection[] = [
  {
    name: 'event',
    title: 'The event',
    heading: 'title',
    record: z.strictObject({
      event_id: outputId('event'),
      org_id: outputId('organization'),
      title: z.string().nullable(),
      description: z.string().nullable(),
      start_at: outputTime(),
      end_at: outputTime().nullable(),
      location_name: z.string().nullable(),
      latitude: z.number().nullable(),
      longitude: z.number().nullable(),
      status: z.string(),
      created_at: outputTime(),
      activated_at: outputTime().nullable(),
      archived_at: outputTime().nullable(),
      purge_at: outputTime().nullable().meta({ description: 'When it is deleted, as it was known at that time' }),
      host_name: Name,
      reactions: Reactions,
    }),
    list: seen(seenEvent),
  },
  {
    name: 'albums',
    title: 'Album',
    heading: 'title',
    record: z.strictObject({
      album_id: outputId('album'),
      title: z.string().nullable(),
      description: z.string().nullable(),
      visibility: z.string(),
      status: z.string(),
      created_at: outputTime(),
      media_count: Count,
      owner_name: Name,
    }),
    list: seen(seenAlbum),
  },
  {
    name: 'media',
    title: 'Photos and videos',
    heading: 'filename',
    record: z.strictObject({
      media_id: outputId('media'),
      filename: z.string(),
      mime_type: z.string(),
      bytes: z.int(),
      taken_at: outputTime(),
      created_at: outputTime(),
      paired_media_id: outputId('media').nullable().meta({ description: 'The other half of a Live Photo' }),
      uploader_name: Name,
      in_album: z.boolean().meta({ description: 'False: only attached to comments' }),
      album_position: z.number().nullable(),
      caption: z.string().nullable(),
      reactions: Reactions,
    }),
    fileOf: 'media_id',
    list: seen(seenMedia),
  },
  {
    name: 'comments',
    title: 'Comments',
    heading: 'author_name',
    record: z.strictObject({
      comment_id: outputId('comment'),
      about: z.string().meta({ description: 'meta: the event; comment: see `reply_to`; media: see `media_id`' }),
      reply_to: outputId('comment').nullable(),
      media_id: outputId('media').nullable().meta({ description: 'The media item that the thread is about' }),
      author_name: Name,
      text: z.string(),
      created_at: outputTime(),
      updated_at: outputTime(),
      edited: z.boolean(),
      attached_media_ids: z.array(outputId('media')),
      reactions: Reactions,
    }),
    list: seen(seenComments),
  },
  {
    name: 'participants',
    title: 'Who takes part',
    heading: 'display_name',
    record: z.strictObject({ display_name: Name, status: z.string(), joined_at: outputTime().nullable() }),
    list: seen(seenParticipants),
  },
  {
    name: 'invitations',
    title: 'Invitations',
    heading: 'invitee_name',
    record: z.strictObject({
      invitation_id: outputId('invitation'),
      email: z.string().nullable().meta({ description: 'Masked' }),
      phone_number: z.string().nullable().meta({ description: 'Masked' }),
      invitee_name: Name,
      invited_by_name: Name,
      status: z.string(),
      message: z.string().nullable(),
      created_at: outputTime(),
      responded_at: outputTime().nullable(),
      response_message: z.string().nullable(),
    }),
    list: invitations,
  },
  {
    name: 'films',
    title: 'Films',
    heading: 'title',
    record: z.strictObject({
      highlight_id: outputId('highlight'),
      title: z.string(),
      duration_sec: z.number().nullable(),
      created_at: outputTime(),
      created_by_name: Name,
      media_ids: z.array(outputId('media')),
    }),
    fileOf: 'highlight_id',
    list: seen(seenFilms),
  },
]

/** Everything of an event that the person who asked may see: what belongs to it is decided in event-archive. */
export const eventContent = (files: Pick<OwnFiles, 'findKeys'>): ExportContent => ({
  kind: 'event',
  document: 'event.json',
  format: 'keepsake-event-export',
  head: {
    shape: { event_id: z.string() },
    of: ({ eventId }) => ({ event_id: eventId && formatId('event', eventId) }),
  },
  sections: SECTIONS,
  files: {
    findKeys: files.findKeys,
    list: async (tx, { of, ...page }) => seenFiles(tx, { sight: await sightOf(tx, of), ...page }),
    async findKept(tx, of, planned) {
      const sight = await sightOf(tx, of)
      const originals = planned.flatMap(({ mediaId, highlightId }) => (highlightId === null ? [mediaId] : []))
      const media = await findSeenMedia(tx, sight, originals)
      const films = await findSeenFilms(tx, sight, [
        ...new Set(planned.flatMap(({ highlightId }) => highlightId ?? [])),
      ])
      const ofFilms = planned.filter(({ highlightId }) => highlightId !== null && films.has(highlightId))
      return [...media, ...ofFilms.map(({ mediaId }) => mediaId)]
    },
  },
  nextFilm: async (tx, of, after) => nextSeenFilm(tx, await sightOf(tx, of), after),
  words: ({ eventTitle, createdAt }) => ({
    title: `${eventTitle ?? 'Event'}, saved on ${createdAt.toISOString().slice(0, 10)}`,
    data: 'The event',
    all: 'All of the event',
    first: 'What was written is in the first one.',
  }),
  check: async (tx, of) => JSON.stringify(await sightOf(tx, of)),
})
