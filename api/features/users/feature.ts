import type { Feature } from '../../feature.ts'
import { NOTHING_OF_PEOPLE } from '../../personal/part.ts'
import { ownUser } from './own-data.ts'
import { userActions } from './policy.ts'
import { userRoutes } from './routes.ts'

export const users: Feature = {
  ...NOTHING_OF_PEOPLE,
  tags: { Users: 'Users of the service.' },
  routes: userRoutes,
  actions: Object.values(userActions),
  export: ownUser,
}
