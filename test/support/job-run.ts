import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type JobResult, parseJobResult } from '../../lib/contract/job-result.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { quickStart } from './quick-start.ts'
import { QUICK_ENCODER } from './slow-ffmpeg.ts'

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

/** A folder store and a work folder, and a real job program run on them as the operator would run it. */
export async function jobBench(
  t: { teardown(f: () => unknown): unknown },
  program: 'transcode' | 'highlight',
  prefix: string,
) {
  const folder = await mkdtemp(join(tmpdir(), `keepsake-${program}-`))
  const store: ObjectStore = openFolderStore({ folder: join(folder, 'store') })
  const work = join(folder, 'work')
  t.teardown(async () => {
    await store.close()
    await rm(folder, { recursive: true, force: true })
  })

  const bytes = async (name: string, below = prefix): Promise<Buffer> => {
    const { body } = await store.get(below + name)
    return Buffer.concat(await body.toArray())
  }

  function start(spec: object, env: Record<string, string> = {}): Started {
    const log = join(folder, `termination-${Math.random()}`)
    const child = spawn(process.execPath, [join(import.meta.dirname, `../../jobs/${program}/main.ts`)], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env['PATH'],
        ...quickStart(),
        STORE_KIND: 'folder',
        STORE_FOLDER: join(folder, 'store'),
        WORK_FOLDER: work,
        TERMINATION_LOG: log,
        ...QUICK_ENCODER,
        JOB_SPEC: JSON.stringify({ accelerator: 'cpu', ...spec }),
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
    bytes,
    start,
    prefix,
    /** What was left in the work folder: nothing, when a program tidied up. */
    leftovers: () => readdir(work).catch(() => []),
    /** The same with all that the folders hold. */
    leftFiles: () => readdir(work, { recursive: true }).catch(() => []),
    keys: async (below = prefix) => {
      const keys: string[] = []
      for await (const { key } of store.list(below)) keys.push(key.slice(below.length))
      return keys
    },
    text: async (name: string, below = prefix) => (await bytes(name, below)).toString(),
    /** All objects below the prefix as files, for a player that reads files. */
    checkout: async (below = prefix): Promise<string> => {
      const target = await mkdtemp(join(folder, 'checkout-'))
      for await (const { key } of store.list(below)) await store.download(key, join(target, key.slice(below.length)))
      return target
    },
  }
}
