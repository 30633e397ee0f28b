import type { IncomingMessage, ServerResponse } from 'node:http'
import { Problem } from '../../lib/contract/problem.ts'
import { openSlots, type Slots } from '../limits/slots.ts'
import type { BodyKind } from '../requests/bytes.ts'
import { hasBody } from './json-body.ts'

/** Bounds the bodies read at the same time and refuses further ones, so that the process stays in its memory limit. */
export interface Bodies {
  /** Takes a slot for the body of this request until its response ends. Throws Problem SERVICE_UNAVAILABLE. */
  enter(route: { bodyKind?: BodyKind; body?: unknown }, req: IncomingMessage, res: ServerResponse): void
  /** Slots in use, for metrics. */
  taken(): Record<Arrival, number>
}

/** Each kind has its own slots, so that uploads do not delay the small documents. */
export type Arrival = 'document' | 'stream'

/** A document has at most 256 KiB: 64 MiB when all of them are that large. */
const MOST_DOCUMENTS = 256
const RETRY_SECONDS = 5

export function openBodies(o: { mostStreams: number; onRefused(arrival: Arrival): void }): Bodies {
  const slots: Record<Arrival, Slots> = { document: openSlots(MOST_DOCUMENTS), stream: openSlots(o.mostStreams) }
  return {
    enter(route, req, res) {
      const arrival = arrivalOf(route)
      if (!arrival || !hasBody(req) || res.closed) return
      const leave = slots[arrival].enter()
      if (leave) return void res.once('close', leave)
      o.onRefused(arrival)
      throw new Problem('SERVICE_UNAVAILABLE', 'Too many uploads at the moment. Please try again.', {
        retryAfter: RETRY_SECONDS,
      })
    },
    taken: () => ({ document: slots.document.taken(), stream: slots.stream.taken() }),
  }
}

function arrivalOf(route: { bodyKind?: BodyKind; body?: unknown }): Arrival | undefined {
  if (route.bodyKind === 'multipart' || route.bodyKind === 'bytes') return 'stream'
  return route.body === undefined ? undefined : 'document'
}
