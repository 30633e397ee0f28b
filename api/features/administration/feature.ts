import type { Feature } from '../../feature.ts'
import { permissionActions } from './policy.ts'
import { permissionRoutes } from './routes.ts'

export const administration: Feature = {
  tags: { Administration: 'For platform administrators.' },
  routes: permissionRoutes,
  actions: Object.values(permissionActions),
  export: { nothing: 'it shows what other features keep' },
}
