import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TranscodeInput, TranscodeJobSpec } from '../../crds/transcode-job.ts'
import { type JobResult, parseJobResult } from '../../lib/contract/job-result.ts'
import { ImageManifest, VideoManifest } from '../../lib/contract/manifest.ts'
import { ProgressReport } from '../../lib/contract/progress.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'

const PROGRAM = join(import.meta.dirname, '../../jobs/transcode/main.ts')
const PREFIX = 'org/o/media/m/v1/'

export interface Finished {
  exit: number | null
  killedBy: string | null
  result: JobResult | undefined
  output: string
}

export interface Started {
  process: ChildProcess
  finished: Promise<Finished>
}

/** A folder store and a work folder, and the real program run on them as the operator would run it. */
export async function transcodeBench(t: { teardown(f: () => unknown): unknown }) {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-transcode-'))
  const store: ObjectStore = openFolderStore({ folder: join(folder, 'store') })
  const work = join(folder, 'work')
  t.teardown(async () => {
    await store.close()
    await rm(folder, { recursive: true, force: true })
  })

  async function inputOf(path: string, id = 'med_1', prefix = PREFIX): Promise<TranscodeInput> {
    const sourceKey = `org/o/media/${id}/original`
    await store.upload(path, sourceKey, { contentType: 'video/mp4' })
    return { id, type: 'video', sourceKey, outputPrefix: prefix }
  }

  /** Every picture as an input of one job, each with a prefix of its own. */
  const imagesOf = (pictures: Readonly<Record<string, Buffer>>): Promise<TranscodeInput[]> =>
    Promise.all(
      Object.entries(pictures).map(async ([id, bytes]) => {
        const sourceKey = `org/o/media/${id}/original`
        await store.put(sourceKey, bytes, { contentType: 'application/octet-stream' })
        return { id, type: 'image' as const, sourceKey, outputPrefix: `${PREFIX}${id}/` }
      }),
    )

  const bytes = async (name: string, prefix = PREFIX): Promise<Buffer> => {
    const { body } = await store.get(prefix + name)
    return Buffer.concat(await body.toArray())
  }

  function start(
    inputs: readonly TranscodeInput[],
    spec: Partial<TranscodeJobSpec> = {},
    env: Record<string, string> = {},
  ): Started {
    const log = join(folder, `termination-${Math.random()}`)
    const child = spawn(process.execPath, [PROGRAM], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'],
        STORE_KIND: 'folder',
        STORE_FOLDER: join(folder, 'store'),
        WORK_FOLDER: work,
        TERMINATION_LOG: log,
        // The same path through the program at a fifth of the cost.
        X264_PRESET: 'ultrafast',
        JOB_SPEC: JSON.stringify({ inputs, accelerator: 'cpu', ...spec }),
        ...env,
      },
    })
    let output = ''
    child.stdout.on('data', (chunk) => (output += String(chunk)))
    child.stderr.on('data', (chunk) => (output += String(chunk)))
    const finished = new Promise<Finished>((resolve) => {
      child.once('close', (exit, killedBy) => {
        const read = readFile(log, 'utf8').catch(() => undefined)
        void read.then((text) => resolve({ exit, killedBy, result: parseJobResult(text), output }))
      })
    })
    return { process: child, finished }
  }

  return {
    folder,
    store,
    inputOf,
    imagesOf,
    bytes,
    imageManifest: async (id: string) =>
      ImageManifest.parse(JSON.parse((await bytes('manifest.json', `${PREFIX}${id}/`)).toString())),
    start,
    run: (...args: Parameters<typeof start>) => start(...args).finished,
    prefix: PREFIX,
    /** What was left in the work folder: nothing, when a program tidied up. */
    leftovers: () => readdir(work).catch(() => []),
    keys: async (prefix = PREFIX) => {
      const keys: string[] = []
      for await (const { key } of store.list(prefix)) keys.push(key.slice(prefix.length))
      return keys
    },
    text: async (name: string, prefix = PREFIX) => {
      const { body } = await store.get(prefix + name)
      return (await body.toArray()).join('')
    },
    manifest: async (prefix = PREFIX): Promise<VideoManifest> => {
      const { body } = await store.get(`${prefix}manifest.json`)
      return VideoManifest.parse(JSON.parse((await body.toArray()).join('')))
    },
    /** All objects below the prefix as files, for a player that reads files. */
    checkout: async (prefix = PREFIX): Promise<string> => {
      const target = await mkdtemp(join(folder, 'checkout-'))
      for await (const { key } of store.list(prefix)) await store.download(key, join(target, key.slice(prefix.length)))
      return target
    },
  }
}

/** What the operator's receiver would see. Answers with `status`. */
export async function progressReceiver(t: { teardown(f: () => unknown): unknown }, status = 204) {
  const reports: (ProgressReport & { at: number })[] = []
  const tokens = new Set<string | undefined>()
  const server = createServer((req, res) => {
    let body = ''
    req.on('data', (chunk) => (body += String(chunk)))
    req.on('end', () => {
      reports.push({ ...ProgressReport.parse(JSON.parse(body)), at: performance.now() })
      tokens.add(req.headers.authorization)
      res.writeHead(status).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise((resolve) => server.close(resolve)))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/progress`, reports, tokens }
}
