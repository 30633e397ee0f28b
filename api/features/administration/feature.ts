import type { Feature } from '../../feature.ts'
import { NOTHING_OF_PEOPLE } from '../../personal/part.ts'
import { permissionActions } from './policy.ts'
import { permissionRoutes } from './routes.ts'

export const administration: Feature = {
  ...NOTHING_OF_PEOPLE,
  tags: { Administration: 'For platform administrators.' },
  routes: permissionRoutes,
  actions: Object.values(permissionActions),
  export: { nothing: 'it shows what other features keep' },
}
