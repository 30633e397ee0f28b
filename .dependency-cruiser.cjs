// The import rules of docs/architecture.md. `only(name, from, to)`: files below `from` may import nothing but `to`.
const only = (name, from, to, comment, fromNot) => ({
  name,
  comment,
  severity: 'error',
  from: { path: from, ...(fromNot && { pathNot: fromNot }) },
  to: { pathNot: to, dependencyTypesNot: ['core'] },
})
const adapter = (name, module, file) => ({
  name,
  comment: `${module} is weak, archived or leaky: only its adapter may import it`,
  severity: 'error',
  from: { pathNot: `${file}|^test/|^local/` },
  to: { path: `node_modules/${module}/` },
})
const PURE = '/(plan|policy|ladder|child|facts|sniff|rule|actions|[a-z-]+-plan)\\.ts$'
/** Every folder of operator/ but these three is a kind. */
const KIND = '(?!(jobs|program|runtime)/)[^/]+'
/** In the folders of operator/ every file is pure, except in runtime/ and those that are named here. */
const OPERATOR_DECIDES = '^operator/(?!runtime/)[^/]+/'
const OPERATOR_ACTS =
  '^operator/(jobs/(caches|gpu-nodes)|(program|retention-policy)/(observe|reconcile|receive-progress|resources|writer))\\.ts$'
/** What knows all features: the list, what is made of it, and the programs. */
const COMPOSITION =
  '^api/((app|features|command-line|server|serve|program|main|cli|generate-[a-z-]+)|[a-z-]+/(main|program))\\.ts$'

module.exports = {
  forbidden: [
    { name: 'no-circular', severity: 'error', from: {}, to: { circular: true, dependencyTypesNot: ['type-only'] } },
    { name: 'no-test-in-product', severity: 'error', from: { pathNot: '^test/' }, to: { path: '^test/' } },
    { name: 'no-local-in-product', severity: 'error', from: { pathNot: '^(test|local)/' }, to: { path: '^local/' } },
    only('crds-are-pure', '^crds/', '^crds/|node_modules/(zod|yaml)/', 'crds/ describes; it never acts'),
    only('contract-is-pure', '^lib/contract/', '^lib/contract/|^crds/|node_modules/zod/', 'what the programs agree on'),
    only('lib-knows-no-program', '^lib/', '^lib/|^crds/|node_modules/', 'lib is below api, operator and jobs'),
    only(
      'jobs-stay-small',
      '^jobs/(?!generate-bundles\\.ts$)',
      '^(jobs|lib|crds)/|node_modules/(zod|fluent-ffmpeg|@types/fluent-ffmpeg|sharp|exif-reader|libheif-js|thumbhash)/',
      'no Postgres, no Kubernetes in an ffmpeg pod',
    ),
    {
      name: 'shared-parts-of-jobs-know-no-program',
      severity: 'error',
      from: { path: '^jobs/(runtime|ffmpeg|hls|images)/' },
      to: { path: '^jobs/(?!(runtime|ffmpeg|hls|images)/)' },
    },
    {
      name: 'ffmpeg-is-below-hls',
      severity: 'error',
      from: { path: '^jobs/ffmpeg/' },
      to: { path: '^jobs/(hls|images)/' },
    },
    only(
      'operator-only-knows-kubernetes',
      '^operator/',
      '^(operator|lib|crds)/|node_modules/(zod|prom-client|node-cron)/',
      'no Postgres, no NATS, no object storage',
    ),
    only(
      'api-does-not-import-programs',
      '^api/',
      '^(api|lib|crds)/|^package\\.json$|node_modules/',
      'programs meet in crds/ and lib/contract',
    ),
    {
      name: 'decisions-are-pure',
      comment: 'what decides must not be able to act',
      severity: 'error',
      from: { path: PURE, pathNot: '^test/' },
      to: {
        path: '^lib/runtime/|^api/db/|node_modules/',
        pathNot: 'node_modules/zod/',
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'decisions-do-not-touch-the-machine',
      severity: 'error',
      from: { path: PURE, pathNot: '^test/' },
      to: { dependencyTypes: ['core'], pathNot: '^(node:)?(crypto|path|util)$' },
    },
    {
      name: 'the-operator-decides-without-acting',
      comment: 'a pure file imports none that acts, so what it reaches is pure as well',
      severity: 'error',
      from: { path: OPERATOR_DECIDES, pathNot: OPERATOR_ACTS },
      to: {
        path: `^lib/runtime/|^operator/runtime/|^operator/[a-z-]+\\.ts$|node_modules/|${OPERATOR_ACTS}`,
        pathNot: 'node_modules/(zod|node-cron)/', // of node-cron only the parser is used
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'what-the-operator-decides-does-not-touch-the-machine',
      severity: 'error',
      from: { path: OPERATOR_DECIDES, pathNot: OPERATOR_ACTS },
      to: { dependencyTypes: ['core'], pathNot: '^(node:)?(crypto|util)$' },
    },
    {
      name: 'only-the-list-of-kinds-knows-them',
      severity: 'error',
      from: { path: '^operator/(jobs|program|runtime)/' },
      to: { path: `^operator/${KIND}/` },
    },
    {
      name: 'kinds-know-no-other-kind',
      severity: 'error',
      from: { path: `^operator/(${KIND})/` },
      to: { path: `^operator/${KIND}/`, pathNot: '^operator/$1/' },
    },
    {
      name: 'jobs-know-no-program',
      comment: 'a kind that schedules Jobs needs operator/jobs/, not operator/program/',
      severity: 'error',
      from: { path: '^operator/jobs/' },
      to: { path: '^operator/program/' },
    },
    {
      name: 'only-queries-touch-tables',
      severity: 'error',
      from: { path: '^api/', pathNot: 'queries\\.ts$|^api/db/' },
      to: { path: '^api/db/schema/', dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'the-platform-knows-no-feature',
      comment: 'everything in api/ but the features and the composition; features.ts passes them in',
      severity: 'error',
      from: { path: '^api/', pathNot: `^api/features/|${COMPOSITION}` },
      to: { path: '^api/features/' },
    },
    {
      name: 'the-composition-is-at-the-top',
      comment: 'only programs and tests import what knows all features',
      severity: 'error',
      from: { path: '^(api|lib|crds|jobs|operator)/', pathNot: COMPOSITION },
      to: { path: COMPOSITION },
    },
    {
      name: 'no-circle-of-folders',
      comment: 'folders of the platform and features import each other only downward',
      severity: 'error',
      scope: 'folder',
      from: { path: '^api/' },
      to: { circular: true },
    },
    {
      name: 'commands-know-no-http',
      comment: 'deliver.ts answers with ranges and redirects: it is HTTP',
      severity: 'error',
      from: {
        path: '^api/features/',
        pathNot: '(routes|/feature)\\.ts$|^api/features/media/delivery/deliver\\.ts$',
      },
      to: { path: '^api/http/' },
    },
    {
      name: 'queries-are-below-commands',
      severity: 'error',
      from: { path: '^api/.*queries\\.ts$' },
      to: { path: '^api/.+(/commands|/present|routes|/feature)\\.ts$' },
    },
    {
      name: 'routes-are-leaves',
      severity: 'error',
      from: { path: '^api/', pathNot: '^api/app\\.ts$|/(feature|routes)\\.ts$' },
      to: { path: 'routes\\.ts$' },
    },
    {
      name: 'records-are-for-the-list',
      comment: 'a feature imports files of another one, never its record',
      severity: 'error',
      from: { path: '^api/', pathNot: '^api/features\\.ts$' },
      to: { path: '^api/features/[^/]+/feature\\.ts$' },
    },
    adapter('only-the-adapter-imports-ffmpeg', 'fluent-ffmpeg', '^jobs/ffmpeg/'),
    adapter('only-the-adapter-imports-libheif', 'libheif-js', '^jobs/images/libheif-worker'),
    adapter('only-the-adapter-imports-s3', 'minio', '^lib/runtime/object-store/s3'),
    adapter('only-the-adapter-imports-drizzle', 'drizzle-orm', '^api/db/(orm|row-of)'),
    adapter('only-the-adapter-imports-nats', 'nats', '^lib/runtime/event-bus/nats'),
    adapter('only-the-adapter-imports-kubernetes', '@kubernetes/client-node', '^lib/runtime/kube/'),
    adapter('only-the-adapter-imports-nodemailer', 'nodemailer', '^api/features/notifications/email/nodemailer'),
    adapter('only-the-adapter-imports-web-push', 'web-push', '^api/features/notifications/push/web-push'),
    adapter('only-the-guard-imports-ipaddr', 'ipaddr.js', '^lib/runtime/guarded-http/addresses'),
    adapter('only-the-adapter-imports-jose', 'jose', '^api/(auth/|features/invitations/token)'),
  ],
  options: {
    tsPreCompilationDeps: 'specify',
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '^(dist|\\.tap)/' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.js', '.d.ts', '.json'],
    },
  },
}
