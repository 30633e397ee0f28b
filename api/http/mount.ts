import { type RequestHandler, Router } from 'express'
import { Problem } from '../../lib/contract/problem.ts'
import type { Route } from './route.ts'
import { type ServeOptions, serve } from './serve.ts'

/**
 * The routes as an Express router. Literal segments take precedence over placeholders, independent of the order of the
 * list and for every method: an address belongs to exactly one path. A known address with another method gets 405; an
 * unknown address falls through.
 */
export function mount(routes: readonly Route[], options: ServeOptions): Router {
  const router = Router({ caseSensitive: true, strict: true })
  for (const [path, operations] of Map.groupBy(inOrder(routes), (route) => route.path)) {
    const address = router.route(expressPath(path))
    for (const route of operations) address[route.method](serve(route, options))
    address.all(refuseOtherMethods(operations))
  }
  return router
}

const expressPath = (path: string) => path.replace(/\{\+(\w+)\}/g, '*$1').replace(/\{(\w+)\}/g, ':$1')

const segmentRank = (segment: string) => (segment.startsWith('{+') ? '2' : segment.startsWith('{') ? '1' : '0')

function inOrder(routes: readonly Route[]): Route[] {
  const rank = (route: Route) => route.path.split('/').map(segmentRank).join('')
  const ranked = routes.map((route) => ({ route, rank: rank(route) }))
  return ranked.sort((a, b) => (a.rank < b.rank ? -1 : Number(a.rank > b.rank))).map(({ route }) => route)
}

function refuseOtherMethods(operations: readonly Route[]): RequestHandler {
  const methods = new Set(operations.map(({ method }) => method.toUpperCase()))
  if (methods.has('GET')) methods.add('HEAD')
  const Allow = [...methods, 'OPTIONS'].sort().join(', ')
  return (req, res) => {
    if (req.method === 'OPTIONS') return void res.status(204).set({ Allow }).end()
    throw new Problem('METHOD_NOT_ALLOWED', 'This address does not support that method', { headers: { Allow } })
  }
}
