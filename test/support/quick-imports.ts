import { type ResolveFnOutput, registerHooks } from 'node:module'

/**
 * Loaded by NODE_OPTIONS before every Node process of the tests. To resolve a module, Node 24 parses the `exports` of
 * its package anew each time, which are 170 kB in drizzle-orm: half a second of CPU for its hundred modules and the
 * fifty that import it, in every process that uses the database. Here this is done once for each specifier.
 */
const PACKAGE = 'drizzle-orm'

const resolved = new Map<string, ResolveFnOutput>()

registerHooks({
  resolve(specifier, context, next) {
    if (specifier.startsWith('.') && specifier.endsWith('.js') && context.parentURL?.includes(`/${PACKAGE}/`))
      return { url: new URL(specifier, context.parentURL).href, format: 'module', shortCircuit: true }
    if (!specifier.startsWith(PACKAGE) || !context.conditions.includes('import')) return next(specifier, context)
    const found = resolved.get(specifier) ?? next(specifier, context)
    resolved.set(specifier, found)
    return { ...found, shortCircuit: true }
  },
})
