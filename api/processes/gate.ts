import type { RequestListener } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { Problem } from '../../lib/contract/problem.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { MetricsOf } from '../health/metrics.ts'
import { newRequestId, refuse } from '../http/unread-request.ts'
import type { Siblings } from './siblings.ts'

interface GateOptions {
  ready(): Promise<void>
  metrics(): Promise<MetricsOf[]>
  log: Log
  /** True where nothing opens it: a load balancer asks a process of its own whether it is ready. */
  isOpen: boolean
}

const AGAIN_MS = 200

/**
 * Keeps requests from a process among siblings until it is ready: node:cluster deals connections to it as soon as it
 * listens, and the load balancer knows only the replica.
 */
export function openGate({ ready, metrics, log, isOpen }: GateOptions) {
  async function untilReady(): Promise<void> {
    for (let told = ''; ; await sleep(AGAIN_MS)) {
      try {
        return await ready()
      } catch (error) {
        const { message } = error as Error
        if (message !== told) log.info({ err: error }, 'not ready to serve')
        told = message
      }
    }
  }

  return {
    /** Answers 503 until the gate is open: the port that has the probes too listens before. */
    guard(listener: RequestListener): RequestListener {
      return (req, res) => {
        if (isOpen) return listener(req, res)
        refuse(res, new Problem('SERVICE_UNAVAILABLE', 'Not ready yet', { retryAfter: 1 }), newRequestId())
      }
    },
    /** Listens for probes, and for requests once this process is ready, however long that takes. */
    async open(
      siblings: Siblings,
      listen: { probes(): Promise<unknown>; requests(): Promise<unknown> },
    ): Promise<void> {
      await listen.probes()
      await siblings.begin({ ready, metrics })
      await untilReady()
      isOpen = true
      await listen.requests()
      await siblings.join()
    },
  }
}
