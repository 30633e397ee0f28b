import { GROUP } from '../../../crds/kind.ts'
import { KINDS } from '../../../crds/kinds.ts'
import { RETENTION_POLICIES } from '../../../crds/retention-policy.ts'

export interface Right {
  who: 'api' | 'worker' | 'operator' | 'jobs'
  verb: string
  /** `resource/subresource@group` */
  what: string
  namespace: string
  name?: string
  may: boolean
}

const HERE = 'keepsake'
const ELSEWHERE = 'media'
/** The same rights for every kind of custom resource; `part` is a subresource with its slash. */
const ofKinds = (part: string, verbs: readonly string[]) =>
  Object.fromEntries(KINDS.map(({ plural }) => [`${plural}${part}@${GROUP}`, verbs]))
/** People make these, and they do not end. */
const POLICIES = `${RETENTION_POLICIES.plural}@${GROUP}`
const JOBS = 'jobs@batch'
const EVENTS = 'events@events.k8s.io'
const LEASES = 'leases@coordination.k8s.io'
const LEASE = 'demo-keepsake-operator'
const VERBS = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete', 'deletecollection']

/** What the calls in the programs' code need; whatever else can be asked of these resources is refused. */
const NEEDED: Record<Right['who'], Record<string, readonly string[]>> = {
  operator: {
    ...ofKinds('', ['get', 'list', 'watch', 'delete']),
    [POLICIES]: ['get', 'list', 'watch', 'patch'],
    ...ofKinds('/status', ['patch']),
    ...ofKinds('/finalizers', ['update']),
    [JOBS]: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
    'pods@': ['list', 'watch'],
    [EVENTS]: ['create', 'patch'],
  },
  worker: {
    ...ofKinds('', ['get', 'list', 'watch', 'create', 'delete']),
    [POLICIES]: ['get', 'list', 'watch'],
  },
  api: {},
  jobs: {},
}
/** What nobody may touch, whatever the verb. */
const FORBIDDEN = [
  'secrets@',
  'configmaps@',
  'serviceaccounts@',
  'serviceaccounts/token@',
  'pods/exec@',
  'pods/log@',
  'nodes@',
  'namespaces@',
  'deployments@apps',
  'jobs/status@batch',
  'roles@rbac.authorization.k8s.io',
  'rolebindings@rbac.authorization.k8s.io',
  'clusterroles@rbac.authorization.k8s.io',
  'customresourcedefinitions@apiextensions.k8s.io',
]

/** Every pair of verb and resource for each account: where it works, and that it ends there. */
export function rights(): Right[] {
  const table: Right[] = []
  const programs = Object.keys(NEEDED) as Right['who'][]
  const resources = new Set([...programs.flatMap((who) => Object.keys(NEEDED[who])), ...FORBIDDEN])
  for (const who of programs) {
    for (const what of resources) {
      const needed = NEEDED[who][what] ?? []
      for (const verb of VERBS) {
        table.push({ who, verb, what, namespace: HERE, may: needed.includes(verb) })
        table.push({ who, verb, what, namespace: ELSEWHERE, may: false })
      }
    }
  }
  return [...table, ...leases()]
}

function leases(): Right[] {
  const ask = (who: Right['who'], verb: string, may: boolean, name?: string, namespace = HERE): Right => ({
    ...{ who, verb, what: LEASES, namespace, may },
    ...(name && { name }),
  })
  return [
    ask('operator', 'create', true),
    ask('operator', 'get', true, LEASE),
    ask('operator', 'update', true, LEASE),
    ask('operator', 'get', false, 'somebody-else'),
    ask('operator', 'update', false, 'somebody-else'),
    ask('operator', 'delete', false, LEASE),
    ask('operator', 'list', false),
    ask('operator', 'update', false, LEASE, ELSEWHERE),
    ask('worker', 'get', false, LEASE),
    ask('api', 'get', false, LEASE),
  ]
}
