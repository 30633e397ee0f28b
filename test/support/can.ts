import { CATALOG } from '../../api/features.ts'

/** The kind of resource of each representation, by its first field. */
export const KINDS: Record<string, string> = {
  album_id: 'album',
  comment_id: 'comment',
  event_id: 'event',
  highlight_id: 'highlight',
  invitation_id: 'invitation',
  media_id: 'media',
  upload_id: 'upload',
  user_id: 'membership',
}
export const actionNamed = new Map(CATALOG.actions.map((action) => [action.name, action]))

export type WithCan = Record<string, unknown> & { can: string[] }

/** Every object of the answer that has `can`. */
export function* withCan(value: unknown): Generator<WithCan> {
  if (value === null || typeof value !== 'object') return
  if ('can' in value) yield value as WithCan
  for (const one of Object.values(value)) yield* withCan(one)
}
