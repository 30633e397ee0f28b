import express, { type Express, type RequestHandler } from 'express'
import helmet from 'helmet'
import { notFound } from '../../lib/contract/problem.ts'
import type { Clock } from '../../lib/runtime/clock.ts'
import type { Log } from '../../lib/runtime/log.ts'
import { accessLog, type Served } from './access-log.ts'
import { BODY_LIMITS, type BodyLimits, watchBodies } from './body-rate.ts'
import { mount } from './mount.ts'
import { answerProblems } from './problems.ts'
import { begin } from './request.ts'
import type { Route } from './route.ts'
import type { ServeOptions } from './serve.ts'

export interface HttpAppOptions extends ServeOptions {
  log: Log
  clock: Clock
  /** The routes are served below this path and at the root. */
  basePath: string
  /** Number of proxies in front whose X-Forwarded-For is trusted. */
  trustProxyHops: number
  onServed?: (served: Served) => void
  /** True while the server stops: the client must not reuse connections then. */
  closing?: () => boolean
  bodyLimits?: BodyLimits
}

/** The order matters: id, log, headers, routes, 404, problems. */
export function httpApp(routes: readonly Route[], o: HttpAppOptions): Express {
  const app = express()
  app.disable('x-powered-by').disable('etag')
  app.set('trust proxy', o.trustProxyHops)
  app.use(begin(o.log, o.clock))
  app.use(accessLog(o.log, o.onServed ?? (() => {})))
  app.use(safeHeaders())
  app.use(closeConnections(o.closing ?? (() => false)))
  app.use(watchBodies(o.bodyLimits ?? BODY_LIMITS))
  const router = mount(routes, o)
  app.use(o.basePath, router)
  app.use(router)
  app.use(() => {
    throw notFound()
  })
  app.use(answerProblems)
  return app
}

/** For JSON. Routes that serve pages or media override the policy. */
const safeHeaders = () =>
  helmet({
    contentSecurityPolicy: {
      useDefaults: false,
      directives: { 'default-src': ["'none'"], 'frame-ancestors': ["'none'"] },
    },
    // Pages of other origins may show media: the links are the credentials, and there are no cookies.
    crossOriginResourcePolicy: { policy: 'cross-origin' },
  })

const closeConnections =
  (closing: () => boolean): RequestHandler =>
  (_req, res, next) => {
    if (closing()) res.set('Connection', 'close')
    next()
  }
