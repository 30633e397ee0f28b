import * as z from 'zod'
import { type Route, rawRoute } from '../../../http/route.ts'
import { type DeliveryDeps, deliver } from './deliver.ts'

const Link = z.object({ token: z.string().max(64), path: z.string().max(512) })

const Conditions = z.object({
  Range: z.string().optional().meta({ description: 'RFC 9110 §14.2; one range of bytes', example: 'bytes=0-1048575' }),
  'If-Range': z
    .string()
    .optional()
    .meta({ description: 'RFC 9110 §13.1.5: the range only if this is still the entity tag' }),
  'If-None-Match': z.string().optional().meta({ description: 'RFC 9110 §13.1.2: 304 if this is still the entity tag' }),
})

const shown = (description: string) => ({ description, schema: { type: 'string' } }) as const
const TAG = { ETag: shown('Entity tag of these bytes') }
const FILE = {
  ...TAG,
  'Accept-Ranges': shown('`bytes`'),
  'Content-Disposition': shown('For an original, and for a file of an export'),
}
const RANGE = { 'Content-Range': shown('RFC 9110 §14.4') }
const LOCATION = { Location: shown('A presigned link of the object store') }

/** Serves files to any client with a link. */
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
        'The operations that show media items, highlights and music tracks make the links. A link opens one media item, highlight or music track for about an hour, and stops working when that is deleted. The link of a file of an export works for a day, and until the export ends. Ranges and conditional requests are supported. The API may redirect a `GET` of a segment to the object store. It disconnects a client that takes less than 16 KiB a second for two minutes while there is more to send: a paused player then requests the rest with `Range`.',
      problems: ['NOT_FOUND'],
      params: Link,
      headers: Conditions,
      raw: {
        contentTypes: [
          'application/vnd.apple.mpegurl',
          'video/*',
          'image/*',
          'audio/*',
          'application/zip',
          'text/csv',
          'application/octet-stream',
        ],
        statuses: {
          200: 'The file',
          206: 'The requested range',
          302: 'Redirects to the segment in the object store; the link works for some minutes',
          304: 'Not modified',
          416: 'The range lies outside the file',
        },
        headers: { 200: FILE, 206: { ...FILE, ...RANGE }, 302: LOCATION, 304: TAG, 416: RANGE },
      },
      handle: ({ method, params, headers, context }) =>
        deliver(deps, { ...params, method, headers, signal: context.signal }),
    }),
  ]
}
