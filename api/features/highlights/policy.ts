import type { Uuid } from '../../../lib/contract/ids.ts'
import { member, organizationAdmin } from '../../permissions/facts.ts'
import { allOf, anyOf, fact, holds, kind, on, onForGuests, onOrganization, type Rule } from '../../permissions/rule.ts'
import { ALBUM, mayReadAlbum, unlessReadOnly } from '../albums/policy.ts'

type Created = { createdBy: Uuid }
type AlbumSeen = typeof mayReadAlbum extends Rule<infer R> ? R : never
/** `album` is null for a highlight without one. */
type Visible = Created & { album: AlbumSeen | null }

const creator = fact<Created>('creator', 'the user who created it', (a, row) => a.userId === row.createdBy)

const albumReader = fact<Visible>(
  'album_reader',
  'those who can see its album',
  (a, row) => row.album !== null && holds(mayReadAlbum, a, row.album),
)

/** The owner of an album decides what it shows. A highlight never changes its album: to remove it is to delete it. */
const albumOwner = fact<Visible>(
  'owner_of_its_album',
  'the owner of its album',
  (a, row) => row.album !== null && a.userId === row.album.ownerId,
)

/** What decides on a highlight. */
export const HIGHLIGHT = kind<Visible>('highlight')

export const highlightActions = {
  create: onOrganization('highlight.create', 'create a highlight', member),
  createInAlbum: on(ALBUM, 'highlight.create_in_album', 'create a highlight of an album', mayReadAlbum, unlessReadOnly),
  list: onOrganization('highlight.list', 'list the highlights of an organization that one can see', member),
  listAll: onOrganization('highlight.list_all', 'list all highlights of an organization', organizationAdmin),
  read: onForGuests(
    HIGHLIGHT,
    'highlight.read',
    'see a highlight',
    anyOf<Visible>(allOf<Visible>(member, anyOf<Visible>(creator, organizationAdmin)), albumReader),
  ),
  delete: on(
    HIGHLIGHT,
    'highlight.delete',
    'delete a highlight',
    anyOf<Visible>(creator, albumOwner, organizationAdmin),
  ),
} as const
