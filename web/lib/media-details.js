/** What a media item is to its viewer. */
export function kindOf(m) {
  if (m.mime_type.startsWith('video/')) return 'video'
  return m.variants?.live_photo_video_url ? 'live' : 'photo'
}

const REMEMBERED = 2000

/** A photo may become a Live Photo after its conversion; how long it moves is known later still. */
const isFinal = (m, meta) =>
  m.upload_status !== 'processing' && (kindOf(m) !== 'live' || meta.live_photo_duration_sec !== null)

/** The metadata of media items, by `ask(m)`. An answer is kept once it can no longer change. */
export function newDetails(ask) {
  const details = new Map()
  return {
    async of(m) {
      const known = details.get(m.media_id)
      if (known && isFinal(m, known)) return known
      const meta = await ask(m)
      if (isFinal(m, meta)) details.set(m.media_id, meta)
      if (details.size > REMEMBERED) details.delete(details.keys().next().value)
      return meta
    },
    /** Undefined unless it was asked for and kept. */
    known: (m) => details.get(m.media_id),
  }
}
