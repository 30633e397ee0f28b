import { readFile } from 'node:fs/promises'
import t from 'tap'
import { openGround } from '../node-support/ground.ts'
import { holdEncoder, processesOfPod } from '../node-support/pod-processes.ts'
import { openWorld } from '../node-support/world.ts'

/** What the pod that decodes strangers' files may do, looked at while it encodes: from within, and from the machine. */
t.setTimeout(900_000)
const ground = await openGround(t)
const w = await openWorld(t, ground, 'sandbox')
await w.submit('held', 'long')
const pod = await w.runningPod('held')
await holdEncoder(pod.metadata.uid ?? '')
const processes = processesOfPod(pod.metadata.uid ?? '')
const program = processes.find((p) => p.command.startsWith('node '))
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
    const folders = ['/', '/etc', '/usr/bin', '/var', process.cwd(), '/work', '/tmp']
    console.log(JSON.stringify(folders.map(write)))`)
  const refused = ['EROFS', 'EROFS', 'EROFS', 'EROFS', 'EROFS']
  t.same(JSON.parse(outcomes), [...refused, 'written', 'written'])
})

t.test('it holds no credential of Kubernetes and is told of no service but the API server', async (t) => {
  t.notMatch(await about(program, 'mounts'), /serviceaccount|secrets/)
  const hosts = (await about(program, 'environ')).match(/^.*_SERVICE_HOST=.*$/gm)
  t.same(hosts, ['KUBERNETES_SERVICE_HOST=10.96.0.1'])
})

t.test('ffmpeg sees none of the secrets that its parent has', async (t) => {
  t.match(await about(program, 'environ'), /^S3_SECRET_KEY=/m)
  const seen = (await about(encoder, 'environ')).split('\n').flatMap((line) => line.split('=')[0] || [])
  t.same(seen, ['PATH'])
})
