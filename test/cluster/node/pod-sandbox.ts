import { readFile } from 'node:fs/promises'
import t from 'tap'
import { openGround } from '../node-support/ground.ts'
import { holdEncoder, processesOfPod } from '../node-support/pod-processes.ts'
import { openWorld, SOURCES } from '../node-support/world.ts'

/** What the pod that decodes strangers' files may do, looked at while it encodes: from within, and from the machine. */
t.setTimeout(1_800_000)
const ground = await openGround(t)
const w = await openWorld(t, ground, 'sandbox')
await w.submit('held', 'long')
const pod = await w.runningPod('held')
await holdEncoder(pod.metadata.uid ?? '')
const processes = processesOfPod(pod.metadata.uid ?? '')
const program = processes.find((p) => p.command.includes('jobs/transcode/main.js'))
const proxy = processes.find((p) => p.command.includes('jobs/store-proxy/main.js'))
const encoder = processes.find((p) => p.command.startsWith('ffmpeg '))
const about = async (process: typeof program, file: string) =>
  (await readFile(`/proc/${process?.pid}/${file}`, 'utf8')).replaceAll('\0', '\n')
const inPod = (script: string) => w.kubectl('exec', pod.metadata.name, '--', 'node', '-e', script)

t.test('it runs as nobody in particular, without any capability, and can gain none', async (t) => {
  for (const process of [program, encoder]) {
    const status = await about(process, 'status')
    t.match(status, /^Uid:\t10001\t10001\t10001\t10001$/m)
    t.match(status, /^Gid:\t10001\t10001\t10001\t10001$/m)
    for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb']) {
      t.match(status, new RegExp(`^${set}:\\s+0{16}$`, 'm'), set)
    }
    t.match(status, /^NoNewPrivs:\t1$/m)
    t.match(status, /^Seccomp:\t2$/m, 'system calls are filtered')
  }
})

t.test('it can write nowhere but where it works', async (t) => {
  const outcomes = await inPod(`
    const fs = require('node:fs')
    const write = (folder) => {
      try { fs.writeFileSync(folder + '/probe', ''); fs.rmSync(folder + '/probe'); return 'written' }
      catch (error) { return error.code }
    }
    const folders = ['/', '/etc', '/usr/bin', '/var', process.cwd(), '/store', '/work', '/tmp']
    console.log(JSON.stringify(folders.map(write)))`)
  const refused = Array.from({ length: 6 }, () => 'EROFS')
  t.same(JSON.parse(outcomes), [...refused, 'written', 'written'])
})

t.test('it holds no credential of Kubernetes and is told of no service but the API server', async (t) => {
  t.notMatch(await about(program, 'mounts'), /serviceaccount|secrets/)
  const hosts = (await about(program, 'environ')).match(/^.*_SERVICE_HOST=.*$/gm)
  t.same(hosts, ['KUBERNETES_SERVICE_HOST=10.96.0.1'])
})

t.test('only its sidecar, which is another user, holds the keys of the store', async (t) => {
  t.match(await about(proxy, 'environ'), /^S3_SECRET_KEY=/m)
  t.notMatch(await about(program, 'environ'), /S3_|SECRET/)
  const seen = (await about(encoder, 'environ')).split('\n').flatMap((line) => line.split('=')[0] || [])
  t.same(seen, ['PATH'])
  const status = await about(proxy, 'status')
  t.match(status, /^Uid:\t10002\t10002\t10002\t10002$/m)
  t.match(status, /^CapBnd:\s+0{16}$/m)
  t.match(status, /^NoNewPrivs:\t1$/m)
  t.match(status, /^Seccomp:\t2$/m)
})

t.test('from within, no process shows the key, and the sidecar is not even visible', async (t) => {
  const outcome = await inPod(`
    const fs = require('node:fs')
    const pids = fs.readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name))
    const read = (pid, file) => {
      try { return fs.readFileSync('/proc/' + pid + '/' + file, 'latin1') } catch { return '' }
    }
    console.log(JSON.stringify({
      programs: pids.map((pid) => read(pid, 'cmdline').split('\\0').join(' ')).filter(Boolean),
      keys: pids.filter((pid) => read(pid, 'environ').includes(${JSON.stringify(ground.s3.secretKey)})),
    }))`)
  const { programs, keys } = JSON.parse(outcome) as { programs: string[]; keys: string[] }
  t.ok(programs.some((p) => p.includes('jobs/transcode/main.js')))
  t.notOk(programs.some((p) => p.includes('store-proxy')))
  t.same(keys, [])
})

t.test('from within, nothing of the store can be reached but what belongs to this Job', async (t) => {
  const own = `out/${w.name}/held/`
  const requests: [method: string, path: string, status: number][] = [
    ['GET', `/info?key=${SOURCES.long}`, 200],
    ['PUT', `/object?key=${own}probe`, 200],
    ['DELETE', `/object?key=${own}probe`, 200],
    ['GET', `/list?prefix=${own}`, 200],
    ['GET', `/object?key=${SOURCES.short}`, 403],
    ['GET', `/info?key=${SOURCES.short}`, 403],
    ['PUT', `/object?key=${SOURCES.long}`, 403],
    ['DELETE', `/object?key=${SOURCES.long}`, 403],
    ['GET', '/list?prefix=', 403],
    ['GET', `/list?prefix=out/${w.name}/`, 403],
    ['DELETE', '/list?prefix=out/', 403],
    ['GET', `/object?key=${own}../../../${SOURCES.short}`, 403],
    ['POST', `/uploads?key=out/${w.name}/other/x`, 403],
  ]
  const statuses = await inPod(`
    const http = require('node:http')
    const ask = ([method, path]) => new Promise((done, fail) => http
      .request({ socketPath: '/store/socket', method, path }, (answer) => { answer.resume(); done(answer.statusCode) })
      .on('error', fail).end(method === 'PUT' ? 'x' : undefined))
    ;(async () => {
      const statuses = []
      for (const request of ${JSON.stringify(requests)}) statuses.push(await ask(request))
      // Without a key, at the front door.
      const { status } = await fetch(${JSON.stringify(`${ground.s3.endpoint}/${ground.s3.bucket}/${SOURCES.long}`)})
      console.log(JSON.stringify([...statuses, status]))
    })()`)
  t.same(JSON.parse(statuses), [...requests.map(([, , status]) => status), 403])
})
