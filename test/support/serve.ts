import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { openRefusals } from '../../api/audit/refusals.ts'
import { type HttpAppOptions, httpApp } from '../../api/http/http-app.ts'
import type { Route } from '../../api/http/route.ts'
import type { Actor } from '../../api/requests/actor.ts'
import { newUuid } from '../../lib/contract/ids.ts'
import { Problem } from '../../lib/contract/problem.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import { type Answer, type Ask, ask } from './ask.ts'
import { testPersonalData } from './personal-data.ts'
import { readableLog } from './readable-log.ts'

interface Teardown {
  teardown(done: () => Promise<void>): void
}

export interface Server {
  port: number
  url: string
  ask(what: Ask): Promise<Answer>
  /** Everything that was logged. */
  logged: Record<string, unknown>[]
}

/** Users of these tests: `Bearer ann` and `Bearer bob`. */
export const PEOPLE: Record<string, Actor> = {
  ann: { userId: newUuid(), platformAdmin: false, sessionId: null },
  bob: { userId: newUuid(), platformAdmin: true, sessionId: null },
}

/** Made-up routes over real HTTP, as the API serves its own: for what no present route shows. */
export async function serveRoutes(
  t: Teardown,
  routes: Route[],
  { host = '127.0.0.1', ...options }: Partial<HttpAppOptions> & Pick<HttpAppOptions, 'db'> & { host?: string },
): Promise<Server> {
  const { log, logged } = readableLog()
  const refusals = openRefusals({ db: options.db, log })
  t.teardown(() => refusals.close())
  const app = httpApp(routes, {
    log,
    refusals,
    personalData: testPersonalData(options.db),
    clock: systemClock,
    basePath: '/v1',
    trustProxyHops: 0,
    checkResponses: true,
    async authenticate(header) {
      const actor = PEOPLE[header?.replace('Bearer ', '') ?? '']
      if (!actor) throw new Problem('UNAUTHORIZED', 'no')
      return actor
    },
    ...options,
  })
  const server = createServer(app)
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  t.teardown(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const { port } = server.address() as AddressInfo
  return { port, url: `http://127.0.0.1:${port}`, ask: (what) => ask(port, what), logged }
}

/** A database that must not be needed. */
export const noDatabase = new Proxy({} as HttpAppOptions['db'], {
  get(_target, name) {
    throw new Error(`the database was asked: ${String(name)}`)
  },
})
