import * as z from 'zod'
import { type Route, rawRoute } from '../../http/route.ts'
import { type DeliveryDeps, deliver } from './deliver.ts'

const Link = z.object({ token: z.string().max(64), path: z.string().max(512) })

const Conditions = z.object({
  Range: z.string().optional().meta({ description: 'RFC 9110 §14.2; one range of bytes', example: 'bytes=0-1048575' }),
  'If-Range': z.string().optional().meta({ description: 'RFC 9110 §13.1.5: the range only if this is still the tag' }),
  'If-None-Match': z.string().optional().meta({ description: 'RFC 9110 §13.1.2: 304 if this is still the tag' }),
})

const shown = (description: string) => ({ description, schema: { type: 'string' } }) as const
const TAG = { ETag: shown('Names these bytes') }
const FILE = { ...TAG, 'Accept-Ranges': shown('`bytes`'), 'Content-Disposition': shown('For an original') }
const RANGE = { 'Content-Range': shown('RFC 9110 §14.4') }
const LOCATION = { Location: shown('A link of the object store') }

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
      headers: Conditions,
      raw: {
        contentTypes: ['application/vnd.apple.mpegurl', 'video/*', 'image/*', 'application/octet-stream'],
        statuses: {
          200: 'The file',
          206: 'The range asked for',
          302: 'Where the segment can be fetched for some minutes',
          304: 'Not changed',
          416: 'Nothing of the file lies in that range',
        },
        headers: { 200: FILE, 206: { ...FILE, ...RANGE }, 302: LOCATION, 304: TAG, 416: RANGE },
      },
      handle: ({ params, headers, context }) => deliver(deps, { ...params, headers, signal: context.signal }),
    }),
  ]
}
