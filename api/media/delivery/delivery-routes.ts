import * as z from 'zod'
import { type Route, rawRoute } from '../../http/route.ts'
import { type DeliveryDeps, deliver } from './deliver.ts'

const Link = z.object({ token: z.string().max(64), path: z.string().max(512) })

/** Getting files out: whoever holds a link may. */
export function deliveryRoutes(deps: DeliveryDeps): Route[] {
  return [
    rawRoute({
      method: 'get',
      path: '/d/{token}/{+path}',
      operationId: 'deliver',
      tags: ['Delivery'],
      limit: 'delivery',
      summary: 'Fetch what a signed link points to',
      description:
        'Links are made by the operations that show media; they open one media for about an hour, and close when it is deleted. Ranges and conditional requests are answered. Segments may be redirected to the object store. A client that takes less than 16 KiB a second for two minutes, while there is more for it, is disconnected: a player that was paused asks for the rest by `Range`.',
      problems: ['NOT_FOUND'],
      params: Link,
      raw: {
        contentTypes: ['application/vnd.apple.mpegurl', 'video/mp2t', 'application/octet-stream'],
        statuses: {
          200: 'The file',
          206: 'The range asked for',
          302: 'Where the segment can be fetched for some minutes',
          304: 'Not changed',
          416: 'Nothing of the file lies in that range',
        },
      },
      handle: ({ params, headers, context }) => deliver(deps, { ...params, headers, signal: context.signal }),
    }),
  ]
}
