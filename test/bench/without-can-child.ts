import { registerHooks } from 'node:module'

/** The API with an empty `can` in all answers: what it costs to make the lists is the difference. */
const MADE = 'listAllowed(actionsOn(name), known(), row)'

registerHooks({
  load(url, context, next) {
    const loaded = next(url, context)
    if (!url.endsWith('/api/permissions/permit.ts')) return loaded
    const source = String(loaded.source)
    if (!source.includes(MADE)) throw new Error(`${url} makes its lists in another way`)
    return { ...loaded, source: source.replace(MADE, '[]') }
  },
})
await import('./api-child.ts')
