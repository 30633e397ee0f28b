import { registerHooks } from 'node:module'

/** For `node --import`: the import of what every program needs does not come to an end, and says when it has begun. */
const FOREVER = `setInterval(() => {}, 1000)
process.stdout.write('importing\\n')
await new Promise(() => {})
`
registerHooks({
  load(url, context, next) {
    const loaded = next(url, context)
    return url.endsWith('/lib/runtime/log.ts') ? { ...loaded, source: FOREVER + String(loaded.source) } : loaded
  },
})
