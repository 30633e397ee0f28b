import type { Express } from 'express'
import packageJson from '../package.json' with { type: 'json' }
import type { AuthDeps } from './auth/commands.ts'
import { noticeRoutes } from './auth/notice-routes.ts'
import { authRoutes } from './auth/routes.ts'
import { sessionRoutes } from './auth/session-routes.ts'
import type { ApiDeps } from './deps.ts'
import { CATALOG, FEATURES } from './features.ts'
import { healthRoutes } from './health/routes.ts'
import { type HttpAppOptions, httpApp } from './http/http-app.ts'
import { openapi } from './http/openapi.ts'
import type { Route } from './http/route.ts'
import { actionsOn } from './permissions/catalog.ts'
import { referenceRoutes } from './reference/routes.ts'

export interface AppDeps extends ApiDeps {
  auth: AuthDeps
  /** Throws while this replica must not receive requests. */
  ready(): Promise<void>
}

/** The operations of the platform have tags, too. */
const TAGS: Readonly<Record<string, string>> = Object.assign(
  {
    Authentication: 'Sign-in through this server (deprecated: use the identity provider), and the public signing keys.',
    Sessions: 'Where users are signed in, and what ends it.',
    Health: 'State of the service.',
    Reference: 'This document.',
  },
  ...FEATURES.map(({ tags }) => tags),
)

/** The OpenAPI document of these routes. */
export const describeApi = (routes: readonly Route[], basePath: string) => {
  const { version, description } = packageJson
  return openapi(routes, { title: 'Keepsake', version, description, server: basePath, tags: TAGS })
}

/** All operations. Building the list uses no dependency; only the handlers do. */
export function apiRoutes(deps: AppDeps, basePath: string): Route[] {
  const { version } = packageJson
  const routes: Route[] = [
    ...healthRoutes({ version, ready: () => deps.ready() }),
    ...authRoutes(deps.auth),
    ...sessionRoutes(deps.auth),
    ...noticeRoutes(deps.auth),
    ...FEATURES.flatMap((feature) => feature.routes(deps, CATALOG)),
    ...referenceRoutes(() => document()),
  ]
  let made: ReturnType<typeof openapi> | undefined
  const document = () => {
    made ??= describeApi(routes, basePath)
    return made
  }
  return routes
}

/** All operations for services of the cluster. */
export const internalRoutes = (deps: ApiDeps): Route[] =>
  FEATURES.flatMap((feature) => feature.internalRoutes?.(deps) ?? [])

/** Their OpenAPI document. */
export const describeInternalApi = (routes: readonly Route[]) => {
  const { version } = packageJson
  const description = 'Operations for services of the cluster, on the internal port'
  return openapi(routes, { title: 'Keepsake, internal', version, description, server: '/', tags: TAGS })
}

export const createInternalApp = (deps: Omit<ApiDeps, 'actionsOn'>, options: HttpAppOptions): Express =>
  httpApp(internalRoutes({ ...deps, actionsOn: actionsOn(CATALOG.actions) }), options)

export const createApp = (deps: Omit<AppDeps, 'actionsOn'>, options: HttpAppOptions): Express =>
  httpApp(apiRoutes({ ...deps, actionsOn: actionsOn(CATALOG.actions) }, options.basePath), options)
