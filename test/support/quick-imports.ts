import { type ResolveFnOutput, registerHooks } from 'node:module'

/**
 * Loaded by NODE_OPTIONS before every Node process of the tests. To resolve an import, Node 24 looks at each folder of
 * its path and reads what the package says of its exports, anew for each importer: a quarter of the CPU of the start of
 * an API. Here a relative import is the file of that name, and a package is resolved once for each package that
 * imports it. So is what CommonJS modules of packages require of each other.
 */
const resolved = new Map<string, ResolveFnOutput>()
const DOMAIN = new URL('quick-domain.ts', import.meta.url).href
/** JavaScript files that Node knows to be ES modules. Their neighbors in the same package are too. */
const modules = new Set<string>()

/** `file:///…/node_modules/name` of a file of a package, and nothing for our own files. */
const packageOf = (url: string) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(url)?.[0] ?? ''

// The first import of node:http reads each of its properties, and these three load undici: 0.1 s of CPU. As properties
// that are not enumerable they stay where they are, but cannot be imported by name.
const http = process.getBuiltinModule('node:http')
for (const name of ['WebSocket', 'CloseEvent', 'MessageEvent']) Object.defineProperty(http, name, { enumerable: false })

registerHooks({
  resolve(specifier, context, next) {
    const { parentURL, conditions } = context
    if (parentURL === undefined || /^node:|^#|\?/.test(specifier)) return next(specifier, context)
    if (!conditions.includes('import')) return required(specifier, parentURL, context, next)
    if (specifier === 'async-hook-domain') return { url: DOMAIN, format: 'module-typescript', shortCircuit: true }
    if (specifier.startsWith('.')) {
      const { href } = new URL(specifier, parentURL)
      if (specifier.endsWith('.ts')) return { url: href, format: 'module-typescript', shortCircuit: true }
      if (!specifier.endsWith('.js') || !modules.has(parentURL)) return next(specifier, context)
      modules.add(href)
      return { url: href, format: 'module', shortCircuit: true }
    }
    const key = `${packageOf(parentURL)} ${specifier}`
    const found = resolved.get(key) ?? next(specifier, context)
    resolved.set(key, found)
    if (found.format === 'module' && found.url.endsWith('.js')) modules.add(found.url)
    return { ...found, shortCircuit: true }
  },
})

type Resolve = Parameters<NonNullable<Parameters<typeof registerHooks>[0]['resolve']>>

function required(specifier: string, parentURL: string, context: Resolve[1], next: Resolve[2]): ResolveFnOutput {
  const from = packageOf(parentURL)
  if (from === '' || specifier.startsWith('/')) return next(specifier, context)
  if (specifier.startsWith('.')) {
    if (!/\.c?js$/.test(specifier)) return next(specifier, context)
    return { url: new URL(specifier, parentURL).href, shortCircuit: true }
  }
  const key = `${from} require ${specifier}`
  const found = resolved.get(key) ?? next(specifier, context)
  resolved.set(key, found)
  return { ...found, shortCircuit: true }
}
