import * as z from 'zod'
import { Problem } from '../../lib/contract/problem.ts'
import { publicRoute, type Route } from '../http/route.ts'

export interface HealthDeps {
  version: string
  /** Throws if requests cannot be served: the server is stopping, or the database does not respond. */
  ready(): Promise<void>
}

const Health = z.object({ status: z.literal('ok'), version: z.string() }).meta({ id: 'Health' })

export const healthRoutes = (deps: HealthDeps): Route[] => [
  publicRoute({
    method: 'get',
    path: '/health',
    operationId: 'getHealth',
    tags: ['Health'],
    summary: 'Get the state of the service',
    description: '503 while the server stops or its database does not respond.',
    atRoot: true,
    limit: 'public',
    status: 200,
    response: Health,
    examples: { response: { status: 'ok', version: '0.1.0' } },
    async handle() {
      try {
        await deps.ready()
      } catch (cause) {
        throw new Problem('SERVICE_UNAVAILABLE', 'Temporarily unavailable. Please try again.', { cause, retryAfter: 5 })
      }
      return { data: { status: 'ok' as const, version: deps.version } }
    },
  }),
]
