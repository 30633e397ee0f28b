import type { IncomingMessage, ServerResponse } from 'node:http'
import { Problem } from '../../lib/contract/problem.ts'
import { documentShares, streamShares } from '../limits/capacity.ts'
import { type Caller, callerKey } from '../limits/policy.ts'
import { type Leave, openShares, type Shares } from '../limits/shares.ts'
import type { BodyKind } from '../requests/bytes.ts'
import { hasBody } from './json-body.ts'
import { ClientGone } from './request.ts'

/** Bounds the bodies read at the same time and refuses further ones, so that the process stays in its memory limit. */
export interface Bodies {
  /**
   * Takes a slot for the body of this request until its response ends, or the returned function is called; a document
   * may wait for it. Throws Problem RATE_LIMITED if the caller has its share of the slots, SERVICE_UNAVAILABLE if there are none left.
   */
  enter(
    route: { bodyKind?: BodyKind; body?: unknown },
    caller: Caller,
    req: IncomingMessage,
    res: ServerResponse,
  ): Promise<Leave | undefined>
  /** Slots in use, for metrics. */
  taken(): Record<Arrival, number>
}

/** Each kind has its own slots, so that uploads do not delay the small documents. */
export type Arrival = 'document' | 'stream'

export interface BodiesOptions {
  maxStreams: number
  /** The factor of the rate limits. */
  factor: number
  onRefused(arrival: Arrival): void
}

export function openBodies(o: BodiesOptions): Bodies {
  const shares: Record<Arrival, Shares> = {
    document: openShares(documentShares(o.factor)),
    stream: openShares(streamShares(o.maxStreams)),
  }
  return {
    async enter(route, caller, req, res) {
      const arrival = arrivalOf(route)
      if (!arrival || !hasBody(req) || res.closed) return undefined
      try {
        const leave = await shares[arrival].enter(callerKey(caller))
        // The client went away while it waited, or its body was cut.
        if (res.closed) {
          leave()
          throw new ClientGone()
        }
        res.once('close', leave)
        return leave
      } catch (error) {
        if (error instanceof Problem) o.onRefused(arrival)
        throw error
      }
    },
    taken: () => ({ document: shares.document.taken(), stream: shares.stream.taken() }),
  }
}

function arrivalOf(route: { bodyKind?: BodyKind; body?: unknown }): Arrival | undefined {
  if (route.bodyKind === 'multipart' || route.bodyKind === 'bytes') return 'stream'
  return route.body === undefined ? undefined : 'document'
}
