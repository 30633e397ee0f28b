const NAMED = ['event', 'album', 'highlight', 'mail', 'person']
const PLAIN = [
  'events',
  'albums',
  'highlights',
  'trash',
  'feed',
  'timeline',
  'my-data',
  'my-account',
  'outbox',
  'audit',
]
/** The list that a view of one thing belongs to. */
const LISTS = { event: 'events', album: 'albums', highlight: 'highlights', mail: 'outbox', person: 'feed' }

export const listOf = (name) => `#${LISTS[name]}`

/**
 * The view that a fragment names: `#event=evt_…`, `#album=alb_…`, `#highlight=hlt_…`, `#mail=ntf_…`, `#person=usr_…`, `#events`, `#albums`,
 * `#highlights`, `#trash`, `#feed` of all groups, `#timeline` of one, `#my-data` and `#my-account` of the person, `#outbox` of the demo, `#audit` for platform administrators; everything else is the photos. The viewer adds `media=med_…`, which does not change the view below it.
 */
export function viewOf(hash) {
  const wanted = new URLSearchParams(hash.replace(/^#/, ''))
  for (const name of NAMED) if (wanted.get(name)) return { name, id: wanted.get(name) }
  return { name: PLAIN.find((view) => wanted.has(view)) ?? 'photos' }
}

/** What stays in the address of a demo link once its key and account are taken out. */
export function withoutKey(hash) {
  const { name, id } = viewOf(hash)
  if (id) return `#${new URLSearchParams({ [name]: id })}`
  return name === 'photos' ? '' : `#${name}`
}

/** The fragment of a media item that is opened from a view. */
export function withMedia(hash, media) {
  const view = withoutKey(hash).slice(1)
  return `#${[view, new URLSearchParams({ media })].filter((part) => String(part) !== '').join('&')}`
}

export const linkToEvent = (id) => `/#${new URLSearchParams({ event: id })}`
export const linkToAlbum = (id) => `/#${new URLSearchParams({ album: id })}`
export const linkToHighlight = (id) => `/#${new URLSearchParams({ highlight: id })}`
export const linkToMail = (id) => `/#${new URLSearchParams({ mail: id })}`
export const linkToPerson = (id) => `/#${new URLSearchParams({ person: id })}`
