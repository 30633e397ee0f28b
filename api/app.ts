import type { Express } from 'express'
import packageJson from '../package.json' with { type: 'json' }
import type { AuthDeps } from './auth/commands.ts'
import { authRoutes } from './auth/routes.ts'
import { CATALOG } from './catalog.ts'
import type { ApiDeps } from './deps.ts'
import { albumRoutes } from './features/albums/routes.ts'
import { commentRoutes } from './features/discussions/comments/routes.ts'
import { reactionRoutes } from './features/discussions/reactions/routes.ts'
import { eventRoutes } from './features/events/routes.ts'
import { highlightRoutes } from './features/highlights/routes.ts'
import { invitationRoutes } from './features/invitations/routes.ts'
import { mediaRoutes } from './features/media/routes.ts'
import { musicTrackRoutes } from './features/music-tracks/routes.ts'
import { organizationRoutes } from './features/organizations/routes.ts'
import { userRoutes } from './features/users/routes.ts'
import { healthRoutes } from './health/routes.ts'
import { type HttpAppOptions, httpApp } from './http/http-app.ts'
import { openapi } from './http/openapi.ts'
import type { Route } from './http/route.ts'
import { actionsOn } from './permissions/catalog.ts'
import { permissionRoutes } from './permissions/routes.ts'
import { referenceRoutes } from './reference/routes.ts'

export interface AppDeps extends ApiDeps {
  auth: AuthDeps
  /** Throws while this replica must not receive requests. */
  ready(): Promise<void>
}

const TAGS = {
  Albums: 'Albums of an organization, and the media items in them.',
  Administration: 'For platform administrators.',
  Authentication: 'Sign-in through this server (deprecated: use the identity provider), and the public signing keys.',
  Comments: 'Comments on events and on what belongs to them, and replies.',
  Events: 'Events of an organization, and the users who take part in them.',
  Health: 'State of the service.',
  Delivery: 'Download of media through signed links.',
  Highlights: 'Photos and clips that a user has chosen, rendered into one stream, and the music for them.',
  Invitations: 'People are invited to events, and respond.',
  Organizations: 'Members of an organization.',
  Reactions: 'Reactions to events and to what belongs to them.',
  Reference: 'This document.',
  Storage: 'Upload of media items into an organization, and access to them.',
  Users: 'Users of the service.',
}

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
    ...albumRoutes(deps),
    ...eventRoutes(deps),
    ...commentRoutes(deps),
    ...highlightRoutes(deps),
    ...invitationRoutes(deps),
    ...mediaRoutes(deps),
    ...musicTrackRoutes(deps),
    ...organizationRoutes(deps),
    ...permissionRoutes(deps, CATALOG),
    ...reactionRoutes(deps),
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

export const createApp = (deps: Omit<AppDeps, 'actionsOn'>, options: HttpAppOptions): Express =>
  httpApp(apiRoutes({ ...deps, actionsOn: actionsOn(CATALOG.actions) }, options.basePath), options)
