import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod'
import type { Client } from './client.ts'

const TITLE = 'Before the reunion'
/** Few, so that it does not take long to make. */
const PHOTOS = 2

const Highlight = z.object({
  highlight_id: z.string(),
  title: z.string(),
  album_id: z.string().nullable(),
  status: z.enum(['processing', 'completed', 'failed']),
  media_ids: z.array(z.string()),
  estimated_duration_sec: z.number(),
  duration_sec: z.number().nullable(),
  variants: z.object({ hls_master_url: z.string().nullable() }),
  progress: z.object({ percent: z.number() }).nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
})
export type Highlight = z.output<typeof Highlight>

const Created = z.object({ highlight_id: z.string() })
const Highlights = z.object({ highlights: z.array(Highlight) })
const Items = z.object({ media: z.array(z.object({ media_id: z.string(), mime_type: z.string() })) })

export interface Sources {
  organization: string
  event: string
  album: string
  /** The video, which is put into the album. */
  video: string
  track: string | undefined
}

/**
 * Makes a highlight of an event from photos of its album and a video, with music, through the API as an app would. One
 * that an earlier run has made is returned instead. Undefined where the event or its album was archived meanwhile.
 */
export async function sampleHighlight(host: Client, sources: Sources): Promise<string | undefined> {
  const { organization, event, album, video, track } = sources
  const { highlights } = Highlights.parse(await host.call('GET', `/api/media/${organization}/highlights?limit=100`))
  const known = highlights.find((h) => h.title === TITLE && h.album_id === album && h.status !== 'failed')
  if (known) return known.highlight_id
  const path = `/api/orgs/${organization}/albums/${album}`
  const { status } = z.object({ status: z.string() }).parse(await host.call('GET', path))
  const about = await host.call('GET', `/api/orgs/${organization}/events/${event}`)
  if (status === 'ARCHIVE' || z.object({ status: z.string() }).parse(about).status === 'archived') return undefined
  const { media } = Items.parse(await host.call('GET', `${path}/media?limit=100`))
  if (!media.some((m) => m.media_id === video)) await host.call('POST', `${path}/media`, { media_id: video })
  const photos = media.filter((m) => m.mime_type.startsWith('image/')).slice(0, PHOTOS)
  const [first, ...rest] = photos.map((m) => m.media_id)
  const made = await host.call('POST', `/api/orgs/${organization}/events/${event}/highlights`, {
    title: TITLE,
    media_ids: [...(first ? [first] : []), video, ...rest],
    transition: 'crossfade',
    ...(track && { music_track_id: track }),
  })
  return Created.parse(made).highlight_id
}

/** Polls until the highlight is finished and calls `show` with every answer. Throws why it could not be made. */
export async function untilRendered(
  client: Client,
  { organization, id }: { organization: string; id: string },
  show: (highlight: Highlight) => void,
): Promise<Highlight> {
  for (;;) {
    const highlight = Highlight.parse(await client.call('GET', `/api/media/${organization}/highlights/${id}`))
    show(highlight)
    const { status, error } = highlight
    if (error) throw new Error(`The highlight could not be made: ${error.message} (${error.code})`)
    if (status === 'completed') return highlight
    await sleep(500)
  }
}
