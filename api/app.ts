import type { Express } from 'express'
import packageJson from '../package.json' with { type: 'json' }
import type { AuthDeps } from './auth/commands.ts'
import { authRoutes } from './auth/routes.ts'
import type { ApiDeps } from './deps.ts'
import { healthRoutes } from './health/routes.ts'
import { type HttpAppOptions, httpApp } from './http/http-app.ts'
import { openapi } from './http/openapi.ts'
import type { Route } from './http/route.ts'
import { mediaRoutes } from './media/routes.ts'
import { permissionRoutes } from './permissions/routes.ts'
import { referenceRoutes } from './reference/routes.ts'
import { userRoutes } from './users/routes.ts'

export interface AppDeps extends ApiDeps {
  auth: AuthDeps
  /** Throws while requests should go elsewhere. */
  ready(): Promise<void>
}

const TAGS = {
  Administration: 'For platform administrators.',
  Authentication: 'Signing in through this server, deprecated in favour of the identity provider, and its public keys.',
  Health: 'Whether the service can be used.',
  Delivery: 'Fetching media through signed links.',
  Reference: 'This document.',
  Storage: 'Uploading media into an organization, and finding them again.',
  Users: 'The people who use the service.',
}

/** The OpenAPI document of these routes. */
export const describeApi = (routes: readonly Route[], basePath: string) => {
  const { version, description } = packageJson
  return openapi(routes, { title: 'Keepsake', version, description, server: basePath, tags: TAGS })
}

/** Every operation there is. Making the list touches none of the dependencies; only handling a request does. */
export function apiRoutes(deps: AppDeps, basePath: string): Route[] {
  const { version } = packageJson
  const routes: Route[] = [
    ...healthRoutes({ version, ready: () => deps.ready() }),
    ...authRoutes(deps.auth),
    ...mediaRoutes(deps),
    ...permissionRoutes(deps),
    ...userRoutes(deps),
    ...referenceRoutes(() => document()),
  ]
  let made: ReturnType<typeof openapi> | undefined
  const document = () => {
    made ??= describeApi(routes, basePath)
    return made
  }
  return routes
}

export const createApp = (deps: AppDeps, options: HttpAppOptions): Express =>
  httpApp(apiRoutes(deps, options.basePath), options)
