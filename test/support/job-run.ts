import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type JobResult, parseJobResult } from '../../lib/contract/job-result.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { HostedJob } from './job-host.ts'
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

interface Teardown {
  teardown(f: () => unknown): unknown
  /** The test that this one is part of; the file is part of none. */
  parent?: unknown
}

/**
 * A folder store and a work folder, and a real job program run on them as the operator would run it. `start` always
 * gives it a process of its own. `run` does so only where it will be killed; it is no test of what a program asks its
 * ffmpeg once, such as its encoders.
 */
export async function jobBench(t: Teardown, program: HostedJob['program'], prefix: string) {
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

  const ending = async (log: string, end: Omit<Finished, 'result'>): Promise<Finished> => ({
    ...end,
    result: parseJobResult(await readFile(log, 'utf8').catch(() => undefined)),
  })

  const environment = (log: string, spec: object, env: Record<string, string>): Record<string, string> => ({
    PATH: process.env['PATH'] ?? '',
    STORE_KIND: 'folder',
    STORE_FOLDER: join(folder, 'store'),
    WORK_FOLDER: work,
    TERMINATION_LOG: log,
    ...QUICK_ENCODER,
    JOB_SPEC: JSON.stringify({ accelerator: 'cpu', ...spec }),
    ...env,
  })

  const logName = () => join(folder, `termination-${Math.random()}`)

  const start = (spec: object, env: Record<string, string> = {}) => startAs(program, spec, env)

  function startAs(name: string, spec: object, env: Record<string, string> = {}): Started {
    const log = logName()
    const child = spawn(process.execPath, [join(import.meta.dirname, `../../jobs/${name}/main.ts`)], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...quickStart(), ...environment(log, spec, env) },
    })
    let output = ''
    child.stdout.on('data', (chunk) => (output += String(chunk)))
    child.stderr.on('data', (chunk) => (output += String(chunk)))
    const finished = new Promise<Finished>((resolve) => {
      child.once('close', (exit, killedBy) => resolve(ending(log, { exit, killedBy, output })))
    })
    return { process: child, finished }
  }

  async function run(spec: object, env: Record<string, string> = {}): Promise<Finished> {
    const host = hostOf(t)
    if (env['KEEPSAKE_FAILPOINT'] || host.isBusy) return start(spec, env).finished
    const log = logName()
    return ending(log, await host.run({ program, env: environment(log, spec, env) }))
  }

  return {
    folder,
    store,
    bytes,
    start,
    /** Another program on the same store. */
    startAs,
    run,
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

/** The host of each file that runs. */
const hosts = new WeakMap<object, JobHost>()

function hostOf(t: Teardown): JobHost {
  let file = t
  while (file.parent) file = file.parent as Teardown
  const known = hosts.get(file)
  if (known && !known.hasEnded) return known
  const host = new JobHost()
  hosts.set(file, host)
  file.teardown(() => host.end())
  return host
}

/** The process that runs the jobs of a file one after another (job-host.ts). */
class JobHost {
  readonly #mark = `# ${randomUUID()} `
  readonly #child = spawn(process.execPath, [join(import.meta.dirname, 'job-host.ts'), this.#mark], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  readonly #closed: Promise<void>
  #output = ''
  #atEnd: ((end: Omit<Finished, 'result'>) => void) | undefined
  hasEnded = false

  constructor() {
    this.#child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.#output += text
      const [, output = '', exit] = new RegExp(`^([^]*)\n${this.#mark}(\\d+)\n`).exec(this.#output) ?? []
      if (exit !== undefined) this.#ended({ exit: Number(exit), killedBy: null, output })
    })
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.#output += text
    })
    this.#closed = new Promise((resolve) => {
      this.#child.once('close', (exit, killedBy) => {
        this.hasEnded = true
        this.#ended({ exit, killedBy, output: this.#output })
        resolve()
      })
    })
  }

  get isBusy(): boolean {
    return this.#atEnd !== undefined
  }

  #ended(end: Omit<Finished, 'result'>): void {
    this.#output = ''
    this.#atEnd?.(end)
    this.#atEnd = undefined
  }

  run(job: HostedJob): Promise<Omit<Finished, 'result'>> {
    this.#child.stdin.write(`${JSON.stringify(job)}\n`)
    return new Promise((resolve) => {
      this.#atEnd = resolve
    })
  }

  end(): Promise<void> {
    this.#child.stdin.end()
    return this.#closed
  }
}
