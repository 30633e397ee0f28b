import { type RequestHandler, Router } from 'express'
import { Problem } from '../../lib/contract/problem.ts'
import type { Route } from './route.ts'
import { type ServeOptions, serve } from './serve.ts'

/**
 * The routes as an Express router. Literal segments win over placeholders whatever the order of the list; a known
 * path with another method is 405; what matches nothing falls through.
 */
export function mount(routes: readonly Route[], options: ServeOptions): Router {
  const router = Router({ caseSensitive: true, strict: true })
  for (const route of inOrder(routes)) router[route.method](expressPath(route.path), serve(route, options))
  router.use(refuseOtherMethods(routes))
  return router
}

const expressPath = (path: string) => path.replace(/\{\+(\w+)\}/g, '*$1').replace(/\{(\w+)\}/g, ':$1')

const segmentRank = (segment: string) => (segment.startsWith('{+') ? '2' : segment.startsWith('{') ? '1' : '0')

function inOrder(routes: readonly Route[]): Route[] {
  const rank = (route: Route) => route.path.split('/').map(segmentRank).join('')
  const ranked = routes.map((route) => ({ route, rank: rank(route) }))
  return ranked.sort((a, b) => (a.rank < b.rank ? -1 : Number(a.rank > b.rank))).map(({ route }) => route)
}

function refuseOtherMethods(routes: readonly Route[]): RequestHandler {
  const patterns = routes.map(({ path, method }) => ({ pattern: patternOf(path), method: method.toUpperCase() }))
  return (req, res, next) => {
    const methods = new Set(patterns.filter(({ pattern }) => pattern.test(req.path)).map(({ method }) => method))
    if (methods.size === 0) return next()
    if (methods.has('GET')) methods.add('HEAD')
    const Allow = [...methods, 'OPTIONS'].sort().join(', ')
    if (req.method === 'OPTIONS') return void res.status(204).set({ Allow }).end()
    throw new Problem('METHOD_NOT_ALLOWED', 'This address does not answer that method', { headers: { Allow } })
  }
}

function patternOf(path: string): RegExp {
  const segments = path.split('/').map((segment) => {
    if (segment.startsWith('{+')) return '.+'
    return segment.startsWith('{') ? '[^/]+' : segment.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  })
  return new RegExp(`^${segments.join('/')}$`)
}
