import { formatId, newUuid, type Uuid } from '../../../../lib/contract/ids.ts'
import {
  AT,
  administers,
  isMember,
  latestFirst,
  madeOnce,
  type Organization,
  type Part,
  peopled,
  type Question,
  type Society,
  type User,
  word,
} from '../../../support/society.ts'
import { deliveries } from './society/deliveries.ts'
import { askUploads, uploadsOf } from './society/uploads.ts'

/** A media item. */
export interface Item {
  id: Uuid
  wireId: string
  organization: Organization
  uploader: User
  kind: 'image' | 'video'
  filename: string
  asset: string
  camera: string
  content: string
  size: number
  capturedAt: string | null
  location: { latitude: number; longitude: number }
  /** Whether it has been converted. */
  isReady: boolean
  /** The other half of a Live Photo. */
  half?: Item
  deleted?: { by: User; isLost: boolean }
}

const TAKEN = [null, '2023-11-02T10:00:00.000Z', '2024-01-03T11:00:00.000Z'] as const
const MIME = { image: 'image/jpeg', video: 'video/mp4' } as const

export const itemsOf = madeOnce((society): Item[] => {
  const { draw } = society
  const anItem = (organization: Organization, uploader: User, kind: Item['kind']): Item => {
    const id = newUuid()
    return {
      ...{ id, wireId: formatId('media', id), organization, uploader, kind, size: 1 + draw.upTo(1000) },
      ...{ filename: word('File'), asset: word('Asset'), camera: word('Camera'), content: word('Content') },
      ...{ capturedAt: draw.one(...TAKEN), isReady: !draw.rarely(3) },
      location: { latitude: draw.upTo(90), longitude: draw.upTo(180) },
    }
  }
  const items = peopled(society).flatMap(({ organization, people }) => {
    const singles = draw.times(2, 5, () => anItem(organization, draw.one(...people), draw.one('image', 'video')))
    const pairs = draw.times(0, 1, (): Item[] => {
      const uploader = draw.one(...people)
      const [image, video] = [anItem(organization, uploader, 'image'), anItem(organization, uploader, 'video')]
      video.half = image
      image.half = video
      return [image, video]
    })
    return [...singles, ...pairs.flat()]
  })
  society.insert('media', ...items.map(rowOf))
  society.act(async () => {
    for (const { organization, id, content } of items) {
      const key = `org/${organization.id}/media/${id}/original`
      await society.api.store.put(key, content, { contentType: 'application/octet-stream' })
    }
  })
  deleteSome(society, items)
  return items
})

/** What other features show of media items to those who are no members. */
export const shownToGuests = madeOnce((): ((who: User, item: Item) => boolean)[] => [])

const DAY = 86_400_000

function deleteSome(society: Society, items: readonly Item[]): void {
  const { draw, api } = society
  for (const { organization, people } of peopled(society)) {
    const here = items.filter((item) => item.organization === organization && isListed(item))
    for (const item of draw.some(here, 3)) {
      const deleted = { by: draw.one(...people), isLost: draw.rarely(4) }
      society.change(async () => {
        const both = [item, ...(item.half ? [item.half] : [])]
        for (const one of both) one.deleted = deleted
        await api.database.admin.query('update media set deleted_at = $2, deleted_by = $3 where id = any($1)', [
          both.map(({ id }) => id),
          deleted.isLost ? new Date(Date.now() - 31 * DAY) : YESTERDAY,
          deleted.by.id,
        ])
      })
    }
  }
}
const YESTERDAY = new Date(Date.now() - DAY)

const prefixOf = ({ organization, id }: Item) => `org/${organization.id}/media/${id}/`
const outputOf = (item: Item, file: string) => (item.isReady ? `${prefixOf(item)}v1/${file}` : null)
const masterOf = (item: Item | undefined) => (item?.kind === 'video' ? outputOf(item, 'master.m3u8') : null)

function rowOf(item: Item) {
  const { id, organization, uploader, kind, filename, asset, camera, size, capturedAt, location, isReady, half } = item
  const source = { width: 4, height: 3, camera: { make: camera, model: null }, location }
  const manifest =
    kind === 'image'
      ? { type: kind, source: { ...source, orientation: 1, exif: {} } }
      : { type: kind, source: { ...source, rotation: 0, durationSec: 2 }, hls: { durationSec: 2, renditions: [] } }
  const isImage = isReady && kind === 'image'
  return {
    ...{ id, org_id: organization.id, uploader_id: uploader.id, kind, mime_type: MIME[kind], file_size_bytes: size },
    ...{
      original_filename: filename,
      asset_identifier: asset,
      captured_at: capturedAt,
      paired_media_id: half?.id ?? null,
    },
    ...{ created_at: AT, updated_at: AT, version: 1, generation: 1, image_is_original: false },
    ...{ upload_status: isReady ? 'completed' : 'processing', conversion_state: isReady ? 'succeeded' : 'queued' },
    ...{ conversion_attempts: 0, conversion_regrouped: 0, manifest: isReady ? manifest : null },
    output_prefix: outputOf(item, ''),
    image_file: isImage ? 'image.jpg' : null,
    webp_file: isImage ? 'image.webp' : null,
    thumb_file: isReady ? 'thumb.webp' : null,
    hls_master: isReady && kind === 'video' ? 'master.m3u8' : null,
  }
}

/**
 * The storage of a user: their media items until the purge, and their unfinished uploads, in all organizations of which they
 * are a member.
 */
export const storedBy = (society: Society, user: User): number =>
  [
    ...itemsOf(society).filter(({ uploader }) => uploader === user),
    ...uploadsOf(society).filter(({ uploader, state }) => uploader === user && state === 'open'),
  ]
    .filter(({ organization }) => isMember(society, user, organization))
    .reduce((sum, { size }) => sum + size, 0)

/** A Live Photo is listed once, as its image. */
export const isListed = ({ kind, half }: Item): boolean => kind === 'image' || half === undefined

/** What a list says of a media item, with the keys of what its links open. */
export function shownItem(item: Item): object {
  const isImage = item.kind === 'image'
  return {
    ...{ media_id: item.wireId, org_id: item.organization.wireId, uploader_id: item.uploader.wireId },
    ...{ original_filename: item.filename, mime_type: MIME[item.kind], file_size_bytes: item.size },
    ...{ upload_status: item.isReady ? 'completed' : 'processing', captured_at: item.capturedAt },
    original_url: `${prefixOf(item)}original`,
    variants: {
      image_url: isImage ? outputOf(item, 'image.jpg') : null,
      image_webp_url: isImage ? outputOf(item, 'image.webp') : null,
      image_thumb_url: outputOf(item, 'thumb.webp'),
      hls_master_url: masterOf(item),
      live_photo_video_url: isImage ? masterOf(item.half) : null,
      asset_identifier: item.asset,
    },
  }
}

/** The picture in the trash is for those who may restore it: who deleted it, and administrators. */
const trashed = (society: Society, who: User, item: Item): object => ({
  ...shownItem(item),
  thumbnail_url:
    who === item.deleted?.by || administers(society, who, item.organization) ? outputOf(item, 'thumb.webp') : null,
})

/** Where it was taken is for the uploader and for administrators. */
function metadata(society: Society, who: User, item: Item): object {
  const mayLocate = who === item.uploader || administers(society, who, item.organization)
  const { half, isReady } = item
  return {
    ...{ media_id: item.wireId, captured_at: item.capturedAt },
    camera: { make: isReady ? item.camera : null, model: null },
    location: isReady && mayLocate ? item.location : null,
    duration_sec: isReady && item.kind === 'video' ? 2 : null,
    live_photo_duration_sec: item.kind === 'image' && half?.isReady ? 2 : null,
  }
}

function askOrganization(society: Society, who: User, organization: Organization): Question[] {
  const params = { org_id: organization.wireId }
  const isThere = isMember(society, who, organization)
  const here = latestFirst(itemsOf(society).filter((item) => item.organization === organization && isListed(item)))
  const visible = here.filter(({ deleted }) => !deleted)
  const takenAt = ({ capturedAt }: Item) => capturedAt ?? AT
  const months = visible
    .map((item) => takenAt(item).slice(0, 7))
    .toSorted()
    .toReversed()
  /** The trash shows administrators everything, and others what they uploaded or deleted. */
  const trash = here.filter(
    ({ deleted, uploader }) =>
      deleted && !deleted.isLost && (administers(society, who, organization) || [uploader, deleted.by].includes(who)),
  )
  const list = (route: string, items: readonly Item[], query: Record<string, string> = {}): Question => ({
    ...{ route, params, query, list: 'media', want: isThere ? { media: items.map(shownItem) } : undefined },
  })
  const ofKind = (kind: Item['kind']) => visible.filter((item) => item.kind === kind)
  return [
    list('listMedia', visible),
    // Sorting is stable: those of one moment stay in the order of their ids.
    list(
      'listMedia',
      visible.toSorted((a, b) => takenAt(b).localeCompare(takenAt(a))),
      { sort: 'captured_at' },
    ),
    list('listMedia', ofKind('image'), { mime_type: 'image/*' }),
    list('listMedia', ofKind('video'), { mime_type: 'video/mp4' }),
    {
      ...list('listTrash', []),
      want: isThere ? { media: trash.map((item) => trashed(society, who, item)) } : undefined,
    },
    {
      ...{ route: 'listMediaMonths', params },
      want: isThere
        ? {
            months: [...new Set(months)].map((month) => ({
              ...{ month, count: months.filter((one) => one === month).length },
            })),
          }
        : undefined,
    },
  ]
}

export const part: Part = {
  of: (society) => [itemsOf(society), uploadsOf(society)],
  /** The library is shared by the members; guests of an event see what belongs to it. */
  ask: (society, who) => [
    ...society.organizations.flatMap((one) => askOrganization(society, who, one)),
    ...itemsOf(society).flatMap((item) => {
      const params = { org_id: item.organization.wireId, media_id: item.wireId }
      const isShown = shownToGuests(society).some((shows) => shows(who, item))
      const isThere = !item.deleted && (isMember(society, who, item.organization) || isShown)
      return [
        { route: 'getMedia', params, want: isThere ? shownItem(item) : undefined },
        { route: 'getMediaMetadata', params, want: isThere ? metadata(society, who, item) : undefined },
      ]
    }),
    ...askUploads(society, who),
  ],
  askAsNobody: (society) =>
    deliveries(
      society,
      itemsOf(society).map((item) => ({
        ...{ key: `${prefixOf(item)}original`, content: item.deleted ? undefined : item.content },
      })),
    ),
}
