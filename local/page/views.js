/** The view that a fragment names: `#event=evt_…`, `#events`, `#trash`; everything else is the photos. */
export function viewOf(hash) {
  const wanted = new URLSearchParams(hash.replace(/^#/, ''))
  const id = wanted.get('event')
  if (id) return { name: 'event', id }
  const name = ['events', 'trash'].find((view) => wanted.has(view))
  return { name: name ?? 'photos' }
}

/** What stays in the address of a demo link once its key and account are taken out. */
export function withoutKey(hash) {
  const { name, id } = viewOf(hash)
  if (name === 'event') return `#${new URLSearchParams({ event: id })}`
  return name === 'photos' ? '' : `#${name}`
}

export const linkToEvent = (id) => `/#${new URLSearchParams({ event: id })}`
