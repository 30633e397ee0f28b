import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import t from 'tap'
import { defaultKubeAccess } from '../../../../lib/runtime/kube/access.ts'
import { EVENTS_V1 } from '../../../../lib/runtime/kube/cluster.ts'
import { openKubeCluster } from '../../../../lib/runtime/kube/kube-cluster.ts'
import { startApiServer } from '../../../support/api-server.ts'

const folder = mkdtempSync(join(tmpdir(), 'kube-access-'))
const before = process.env['KUBECONFIG']
t.teardown(() => {
  rmSync(folder, { recursive: true })
  if (before === undefined) delete process.env['KUBECONFIG']
  else process.env['KUBECONFIG'] = before
})

const base64 = (text: string) => Buffer.from(text).toString('base64')
function kubeconfig(cluster: object, user: object | null = {}, write: (config: object) => string = JSON.stringify) {
  const file = join(folder, `${Math.random()}.kubeconfig`)
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      { name: 'other', cluster: { server: 'https://other.example' } },
      { name: 'c', cluster },
    ],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u', namespace: 'media' } }],
    'current-context': 'x',
  }
  writeFileSync(file, write(config))
  process.env['KUBECONFIG'] = file
}

t.test('certificates are taken from the configuration itself or from files beside it', async (t) => {
  writeFileSync(join(folder, 'ca.crt'), 'ca of file')
  writeFileSync(join(folder, 'client.key'), 'key of file')
  kubeconfig(
    { server: 'https://cluster.example:6443', 'certificate-authority': 'ca.crt', 'tls-server-name': 'inside' },
    { 'client-certificate-data': base64('certificate'), 'client-key': 'client.key' },
  )
  const found = await defaultKubeAccess()()
  t.equal(found.server, 'https://cluster.example:6443')
  t.strictSame(found.headers, {})
  t.strictSame(
    Object.fromEntries(Object.entries(found.tls).map(([k, v]) => [k, String(v)])),
    { ca: 'ca of file', cert: 'certificate', key: 'key of file', servername: 'inside' },
    'and nothing says that certificates need not be checked',
  )
})

t.test('a token file is read again whenever it is asked for, and goes before a token', async (t) => {
  const file = join(folder, 'token')
  writeFileSync(file, 'first\n')
  kubeconfig({ server: 'https://c.example' }, { token: 'fixed', tokenFile: 'token' })
  const access = defaultKubeAccess()
  t.equal((await access()).headers['Authorization'], 'Bearer first')
  writeFileSync(file, 'second\n')
  t.equal((await access()).headers['Authorization'], 'Bearer second')
})

t.test('a configuration in YAML with a user of nothing is understood', async (t) => {
  const yaml = () =>
    'clusters: [{name: c, cluster: {server: "https://y.example", insecure-skip-tls-verify: true}}]\n' +
    'users: [{name: u, user: null}]\ncontexts:\n- {name: x, context: {cluster: c, user: u}}\ncurrent-context: x\n'
  kubeconfig({}, {}, yaml)
  t.match(await defaultKubeAccess()(), { server: 'https://y.example', tls: { rejectUnauthorized: false } })
})

t.test('what else a user may ask for is left to the client', async (t) => {
  const script = join(folder, 'plugin.sh')
  const credential = {
    apiVersion: 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    status: { token: 'made' },
  }
  writeFileSync(script, `#!/bin/sh\necho '${JSON.stringify(credential)}'\n`, { mode: 0o755 })
  const exec = { apiVersion: credential.apiVersion, command: script, interactiveMode: 'Never' }
  kubeconfig({ server: 'https://c.example' }, { exec })
  t.match(await defaultKubeAccess()(), { server: 'https://c.example', headers: { Authorization: 'Bearer made' } })

  kubeconfig({ server: 'https://c.example', 'proxy-url': 'http://proxy.example:3128' })
  t.ok((await defaultKubeAccess()()).agent, 'a proxy')
})

t.test('without TLS nothing is sent unless the configuration says that it may', async (t) => {
  const api = await startApiServer()
  t.teardown(() => api.close())
  kubeconfig({ server: api.url, 'insecure-skip-tls-verify': true })
  const cluster = openKubeCluster({ log: pino({ level: 'silent' }) })
  t.teardown(() => cluster.close())
  t.strictSame(await cluster.list(EVENTS_V1, { namespace: 'media' }), [])
  kubeconfig({ server: api.url })
  await t.rejects(async () => defaultKubeAccess()(), /HTTP protocol is not allowed/)
})

t.test('a configuration that names no cluster is refused at once', async (t) => {
  writeFileSync(join(folder, 'empty'), '{}')
  process.env['KUBECONFIG'] = join(folder, 'empty')
  t.throws(() => defaultKubeAccess(), /No Kubernetes configuration|names no cluster/)
})
