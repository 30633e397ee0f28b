import { formatId } from '../../../lib/contract/ids.ts'
import type { Links } from '../../deps.ts'
import type { Now } from '../../permissions/permit.ts'
import { timestamp } from '../../requests/schemas.ts'
import type { Highlight } from './highlight.ts'
import { HIGHLIGHT } from './policy.ts'
import type { ShownHighlight } from './queries.ts'

export const toHighlight = (row: ShownHighlight, { links, now }: { links: Links; now: Now }): Highlight => ({
  highlight_id: row.id,
  org_id: row.orgId,
  album_id: row.albumId,
  title: row.title,
  status: row.status,
  media_ids: row.items.map(({ mediaId }) => mediaId),
  transition: row.transition,
  music_track_id: row.musicTrackId,
  orientation: row.orientation,
  fill: row.fill,
  ken_burns: row.kenBurns,
  show_title: row.showTitle,
  captions: row.captions,
  skip_broken: row.skipBroken,
  estimated_duration_sec: row.estimatedDurationSec,
  duration_sec: row.durationSec,
  variants: toVariants(row, links),
  placeholder: row.placeholder,
  expires_in: links.expiresIn,
  progress: row.status === 'processing' ? row.renderProgress : null,
  items: toItems(row),
  created_by: row.createdBy,
  created_at: timestamp(new Date(row.createdAt)),
  error: row.error && {
    code: row.error.code,
    message: row.error.message,
    media_id: row.error.mediaId,
  },
  can: now(HIGHLIGHT, row),
})

function toVariants({ outputPrefix, hlsMaster, webpFile, thumbFile }: ShownHighlight, links: Links) {
  const url = (file: string | null) => (outputPrefix && file ? links.url(outputPrefix + file) : null)
  return { hls_master_url: url(hlsMaster), image_webp_url: url(webpFile), image_thumb_url: url(thumbFile) }
}

function toItems({ items, manifest }: ShownHighlight): Highlight['items'] {
  return items.map(({ mediaId, type, skipped }) => {
    // Render programs know media items by these ids.
    const id = formatId('media', mediaId)
    const shown = manifest?.items.find((item) => item.id === id)
    return {
      media_id: mediaId,
      type,
      start_sec: shown?.startSec ?? null,
      duration_sec: shown?.seconds ?? null,
      skipped: skipped ?? manifest?.skipped.find((item) => item.id === id)?.message ?? null,
    }
  })
}
