import { formatId, type IdKind } from '../../../lib/contract/ids.ts'
import type { Links } from '../../deps.ts'
import { variantKeys } from '../media/variants.ts'
import type { ItemMedia, ScannedItem } from './queries.ts'
import { MAX_COUNT, summaryOf } from './summary.ts'
import type { TimelineItem } from './timeline-item.ts'

export function toTimelineItem(item: ScannedItem, links: Pick<Links, 'url'>): TimelineItem {
  const media = item.media ?? []
  // The first of a burst may be deleted; the latest one that is shown is not.
  const refId = item.refType === 'media' ? (media[0]?.id ?? item.refId) : item.refId
  const titles = {
    eventTitle: item.event?.title ?? null,
    albumTitle: item.albumId ? (item.album?.title ?? null) : null,
  }
  return {
    timeline_item_id: item.id,
    org_id: item.orgId,
    type: item.type,
    actor_id: item.actorId,
    actor_name: item.actorName,
    ref_type: item.refType,
    ref_id: formatId(item.refType satisfies IdKind, refId),
    event_id: item.eventId,
    album_id: item.albumId,
    title: titles.albumTitle ?? titles.eventTitle,
    summary:
      item.summary ??
      summaryOf({
        ...titles,
        type: item.type,
        change: item.change,
        actorName: item.actorName,
        isActorPresent: item.isActorPresent,
        on: item.about?.on,
        emoji: item.about?.emoji,
        total: item.total,
        kinds: media.map(({ kind }) => kind),
      }),
    count: item.total > 0 ? Math.min(item.total, MAX_COUNT + 1) : null,
    media: media.map((one) => toMedia(one, links)),
    created_at: item.at,
  }
}

function toMedia(row: ItemMedia, links: Pick<Links, 'url'>): TimelineItem['media'][number] {
  const keys = variantKeys({ ...row, livePhotoVideo: null })
  const url = (key: string | null) => (key === null ? null : links.url(key))
  return {
    media_id: row.id,
    kind: row.kind,
    image_thumb_url: url(keys.image_thumb_url),
    image_webp_url: url(keys.image_webp_url),
    placeholder: row.placeholder,
  }
}
