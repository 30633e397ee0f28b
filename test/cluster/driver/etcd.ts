import { request } from 'node:http'
import { type Program, program } from './program.ts'
import type { RunFolder } from './run-folder.ts'

export interface Etcd extends Program {
  /** What an API server connects to. */
  url: string
  /** Forgets everything before a revision that is newer than anything an API server has seen. */
  compact(): Promise<void>
}

/** A store on a unix socket in the run's folder: no port to be taken, and nobody else can reach it. */
export function etcdOf(run: RunFolder, binary: string): Etcd {
  const socket = run.file('etcd.sock')
  const command = [
    binary,
    `--data-dir=${run.file('etcd')}`,
    `--listen-client-urls=unix://${socket}`,
    // It has no peers and introduces itself to nobody, but insists on an address with a port.
    '--advertise-client-urls=http://127.0.0.1:1',
    '--listen-peer-urls=http://127.0.0.1:0',
    '--unsafe-no-fsync=true',
    '--log-level=warn',
  ]
  const etcd = program({ name: 'etcd', run, command })
  return {
    ...etcd,
    url: `unix://${socket}`,
    async start() {
      await etcd.start()
      await etcd.until(() => ask(socket, '/v3/kv/range', { key: base64('/') }))
    },
    async compact() {
      const key = base64('/keepsake-test/revision')
      const { header } = await ask(socket, '/v3/kv/put', { key, value: base64(new Date().toISOString()) })
      await ask(socket, '/v3/kv/compaction', { revision: header.revision, physical: true })
    },
  }
}

const base64 = (text: string) => Buffer.from(text).toString('base64')

/** etcd's own JSON door beside gRPC. */
function ask(socketPath: string, path: string, body: object): Promise<{ header: { revision: string } }> {
  return new Promise((resolve, reject) => {
    const call = request({ socketPath, path, method: 'POST', timeout: 60_000 }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      response.once('error', reject)
      response.once('end', () => {
        if (response.statusCode === 200) resolve(JSON.parse(text) as { header: { revision: string } })
        else reject(new Error(`etcd answered ${path} with ${response.statusCode}: ${text}`))
      })
    })
    call.once('error', reject).once('timeout', () => call.destroy(new Error('etcd is silent')))
    call.end(JSON.stringify(body))
  })
}
