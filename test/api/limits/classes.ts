import t from 'tap'
import { type AppDeps, apiRoutes } from '../../../api/app.ts'
import { LIMIT_CLASSES, type Limit } from '../../../api/limits/classes.ts'
import { limitOf } from '../../../api/limits/limits.ts'

const nothing: object = new Proxy({}, { get: () => nothing })
const routes = apiRoutes(nothing as AppDeps, '/v1')
/** The decisions' own words for the classes that operations of today belong to; every other route is `general`. */
const EXPECTED: Record<string, string> = {
  login: 'login',
  completeLogin: 'login',
  receiveProviderEvent: 'provider',
  receiveLogoutToken: 'provider',
  anonymizeUser: 'anonymize',
  getAnonymization: 'public',
  refreshTokens: 'refresh',
  uploadSingle: 'single-upload',
  startUpload: 'upload-init',
  putChunk: 'chunk',
  deliver: 'delivery',
  createInvitation: 'invitation',
  reissueInvitation: 'invitation',
  respondToInvitation: 'respond',
  getInvitationBySlug: 'slug',
  renewInvitationLink: 'renewal',
  getInvitationQrCode: 'qr',
  createComment: 'comment',
  editComment: 'comment',
  react: 'reaction',
  createHighlight: 'highlight',
  createAlbumHighlight: 'highlight',
  createEventHighlight: 'highlight',
  removeReaction: 'reaction',
  reorderAlbumMedia: 'reorder',
  recordOpen: 'delivery',
  followInvitationLink: 'delivery',
  getLandingPage: 'slug',
  getLandingFile: 'delivery',
  getUnsubscribePage: 'public',
  unsubscribe: 'public',
  undoUnsubscribe: 'public',
  followFeed: 'changes',
  queryAudit: 'audit',
  requestAuditExport: 'export',
  getHealth: 'public',
  getSigningKeys: 'public',
  getOpenApiDocument: 'public',
  getReferencePage: 'public',
  getReferenceFile: 'public',
}

t.test('every operation belongs to one class that exists', async (t) => {
  t.ok(routes.length > 10)
  for (const route of routes) {
    t.ok(Object.hasOwn(LIMIT_CLASSES, limitOf(route)), route.operationId)
    t.equal(limitOf(route), EXPECTED[route.operationId] ?? 'general', route.operationId)
  }
})

t.test('what needs no token is never in the class of those that have one', async (t) => {
  for (const route of routes) if (route.public) t.not(limitOf(route), 'general', route.operationId)
})

t.test('a route names an account where its class counts by account, and nowhere else', async (t) => {
  for (const route of routes) {
    const byAccount = Object.values(LIMIT_CLASSES[limitOf(route)].limits).some(({ per }) => per.startsWith('account'))
    t.equal(route.account !== undefined, byAccount, route.operationId)
  }
})

t.test(
  'what a route names is short, however long the body is: the process keeps the keys of its counters',
  async (t) => {
    const body = { email: 'e'.repeat(320), challenge_id: 'c'.repeat(4096), refresh_token: 'r'.repeat(8192) }
    for (const { account, operationId } of routes) {
      if (account) t.ok(account(body, { slug: 'K7M2QX9A' }).length <= 320, operationId)
    }
  },
)

t.test('the numbers are those of the decisions', async (t) => {
  const said = Object.fromEntries(
    Object.entries(LIMIT_CLASSES).map(([name, { limits, done, refused, shared, atOnce }]) => {
      const said = ({ quota, seconds, burst, per }: Limit) =>
        `${quota}/${seconds}${burst ? ` burst ${burst}` : ''} ${per}`
      const numbers = [
        ...Object.values(limits).map(said),
        ...Object.values(done ?? {}).map((limit) => `${said(limit)} done`),
        ...Object.values(refused ?? {}).map((limit) => `${said(limit)} refused`),
      ]
      return [name, [...numbers, ...(shared ? ['shared'] : []), ...(atOnce ? [`${atOnce} at once`] : [])].join(', ')]
    }),
  )
  t.strictSame(said, {
    general: '600/60 burst 60 caller',
    public: '300/60 burst 100 address',
    delivery: '6000/60 burst 600 address',
    qr: '120/60 burst 60 address',
    'single-upload': '3000/600 caller, 12 at once',
    'upload-init': '1000/3600 caller',
    chunk: '1200/60 caller, 6 at once',
    login: '120/60 address, 5/60 account, 20/3600 account, 100/3600 address refused, 10/60 address refused, shared',
    refresh: '3000/60 burst 600 address, 30/60 account',
    provider: '6000/60 burst 1000 address',
    comment: '30/60 caller',
    reaction: '60/60 caller',
    reorder: '60/60 burst 20 caller, 2 at once',
    highlight: '100/3600 caller, 10/3600 caller done',
    invitation: '300/3600 caller, 30/3600 caller done, 100/86400 caller done',
    respond: '10/60 caller, 120/60 address',
    slug: '600/60 address, 60/600 accounts, 300/60 account',
    renewal: '20/3600 address, 60/86400 address',
    changes: '60/60 burst 20 caller',
    audit: '120/60 burst 30 caller, 3 at once',
    export: '100/86400 caller, 10/86400 caller done',
    anonymize: '50/3600 caller, 5/3600 caller done',
  })
})
