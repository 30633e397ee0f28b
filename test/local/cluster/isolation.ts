import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { eventually } from '../../support/eventually.ts'
import { jobCluster, testFolder } from '../../support/local-jobs.ts'

/** What stands between the program of a Job and the rest of this machine: sidecars, Secrets, folders, processes. */

const sidecar = (script: string, more: object = {}) => ({
  initContainers: [{ name: 'beside', image: 'none', restartPolicy: 'Always', command: ['sh', '-c', script], ...more }],
  volumes: [{ name: 'shared', emptyDir: {} }],
})
const shared = { volumeMounts: [{ name: 'shared', mountPath: '/shared' }], env: [{ name: 'SHARED', value: '/shared' }] }

t.test(
  'a sidecar runs beside the program, is told to end after it, and its end says nothing about the pod',
  async (t) => {
    const c = jobCluster(t)
    const script = `trap 'echo sidecar-told; exit 3' TERM; echo up > $SHARED/up; while :; do sleep 0.05; done`
    const waits = 'until [ -e $SHARED/up ]; do sleep 0.05; done; echo program-done'
    await c.create('a', waits, { pod: sidecar(script, shared), container: shared })
    const { final, pods } = await c.over('a')
    t.equal(final.type, 'Complete')
    t.match(pods[0]?.status, {
      phase: 'Succeeded',
      containerStatuses: [{ name: 'main', state: { terminated: { exitCode: 0 } } }],
      initContainerStatuses: [{ name: 'beside', state: { terminated: { exitCode: 3 } } }],
    })
    t.match(c.cluster.logs(c.key(pods[0]?.metadata.name ?? '')), /program-done\n[\s\S]*sidecar-told/)
  },
)

t.test('a sidecar that ends is started again', async (t) => {
  const c = jobCluster(t)
  const script = 'echo x >> $SHARED/starts; [ $(wc -l < $SHARED/starts) -gt 2 ] && sleep 60; exit 1'
  const waits = 'until [ "$(cat $SHARED/starts | wc -l)" -gt 2 ]; do sleep 0.05; done'
  await c.create('a', waits, { pod: sidecar(script, shared), container: shared })
  t.equal((await c.over('a')).final.type, 'Complete')
})

t.test('a sidecar ends with a pod that is stopped', async (t) => {
  const c = jobCluster(t)
  const folder = await testFolder(t)
  await c.create('a', 'echo ready; sleep 60', { pod: sidecar(`echo $$ > ${folder}/pid; exec sleep 60`) })
  await c.running('a')
  const pid = Number(await eventually('its pid', () => readFile(`${folder}/pid`, 'utf8').catch(() => undefined)))
  await c.delete('a')
  await eventually('its end', () => {
    try {
      return process.kill(pid, 0) ? undefined : true
    } catch {
      return true
    }
  })
})

t.test('refuses init containers that are no sidecars, and mounts of theirs that do not exist', async (t) => {
  const c = jobCluster(t)
  const init = { name: 'init', command: ['true'] }
  await t.rejects(c.create('a', 'true', { pod: { initContainers: [init] } }), /restartPolicy Always/)
  const lost = { ...init, restartPolicy: 'Always', volumeMounts: [{ name: 'none', mountPath: '/x' }] }
  await t.rejects(c.create('a', 'true', { pod: { initContainers: [lost] } }), /Not found: "none"/)
})

const hasNamespaces = spawnSync('unshare', ['--user', '--map-root-user', '--mount', 'true']).status === 0
const skip = hasNamespaces ? false : 'this system permits no user namespaces'

t.test('the program sees neither the folders of the platform nor what others hold in memory', { skip }, async (t) => {
  const folder = await testFolder(t)
  await mkdir(join(folder, 'objects'))
  await writeFile(join(folder, 'objects', 'key'), 'top secret')
  const c = jobCluster(t, { folder: join(folder, 'cluster'), hide: [folder], secrets: { store: { KEY: 'the-key' } } })
  const secret = { envFrom: [{ secretRef: { name: 'store' } }], ...shared }
  const holds = `cat ${folder}/objects/key; echo $$ > $SHARED/pid; exec sleep 60`
  const looks = `
    until [ -s $SHARED/pid ]; do sleep 0.05; done
    for file in ${folder}/objects/key /proc/$(cat $SHARED/pid)/environ /proc/${process.pid}/environ \
      /proc/$(cat $SHARED/pid)/root /proc/${process.pid}/cwd/package.json; do
      if cat "$file" >/dev/null 2>&1 || ls "$file/" >/dev/null 2>&1; then echo "OPEN $file"; else echo closed; fi
    done
    umount ${folder} 2>/dev/null && echo OPEN umount
    touch ${process.cwd()}/package.json 2>/dev/null && echo OPEN checkout
    touch ${tmpdir()}/left-by-a-job 2>/dev/null && echo OPEN temporary folder
    echo own > $SHARED/own && cat $SHARED/own; tr '\\0' '\\n' < /proc/self/environ | grep KEY`
  await c.create('a', `${looks}; true`, { pod: sidecar(holds, secret), container: shared })
  const { pods } = await c.over('a')
  const output = c.cluster.logs(c.key(pods[0]?.metadata.name ?? ''))
  t.equal(output.match(/closed/g)?.length, 5)
  t.notMatch(output, /OPEN|the-key/)
  t.match(output, /top secret/, 'the sidecar, which has the Secret, does see them')
  t.match(output, /own/, 'its own folder is open to it')
})

/** A socket as a program of this user has it, in a new folder of `where`. */
async function listen(t: Test, where: string): Promise<string> {
  const folder = await mkdtemp(join(where, 'keepsake-socket-'))
  const path = join(folder, 'agent')
  const server = createServer((socket) => socket.destroy()).listen(path)
  await once(server, 'listening')
  t.teardown(async () => {
    server.close()
    await rm(folder, { recursive: true, force: true })
  })
  return path
}

const CONNECT = `
for (const path of process.argv.slice(1)) {
  const done = (said) => console.log(said, path)
  const socket = require('node:net').connect(path, () => { done('OPEN'); socket.destroy() })
  socket.on('error', () => done('closed'))
}`

t.test('the program reaches no socket of this user', { skip }, async (t) => {
  const folder = await testFolder(t)
  const c = jobCluster(t, { folder: join(folder, 'cluster'), hide: [folder], secrets: { store: { KEY: 'x' } } })
  const places = [tmpdir(), homedir(), '/run', '/var/tmp', '/dev/shm']
  const sockets = (await Promise.all(places.map((where) => listen(t, where).catch(() => [])))).flat()
  t.ok(sockets.length >= 3, `sockets in ${sockets.join(', ')}`)
  const command = [process.execPath, '-e', CONNECT, ...sockets]
  const seen = async (name: string, more: object) => {
    await c.create(name, '', { container: { command, ...more } })
    const { final, pods } = await c.over(name)
    t.equal(final.type, 'Complete')
    const lines = c.cluster
      .logs(c.key(pods[0]?.metadata.name ?? ''))
      .trim()
      .split('\n')
    return lines.sort()
  }
  const all = (said: string) => sockets.map((path) => `${said} ${path}`).sort()
  t.strictSame(await seen('trusted', { envFrom: [{ secretRef: { name: 'store' } }] }), all('OPEN'), 'they are there')
  t.strictSame(await seen('job', {}), all('closed'))
})
