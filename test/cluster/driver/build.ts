import { spawn } from 'node:child_process'
import { access, mkdir, readdir, rename, rm, stat, symlink, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder } from '../../support/cache-folder.ts'
import { programPath } from '../../support/services/process.ts'
import { runWith } from './cluster.ts'
import { underLock } from './lock.ts'
import { type Build, buildKey, everyBuild, moduleFolder } from './modules.ts'

const FLAGS = ['-mod=readonly', '-trimpath', '-buildvcs=false']
const ENVIRONMENT = { CGO_ENABLED: '0', GOFLAGS: '', GOWORK: 'off', GO111MODULE: 'on' }
const UNUSED_MS = 14 * 24 * 3600 * 1000

let ensured: Promise<string> | undefined

/**
 * The folder with kube-apiserver, etcd, kubectl and their like, built when it is missing: about ten minutes once, and
 * after that only when a go.mod or the compiler changes. Several callers at once build once; one who is interrupted
 * leaves nothing that could be taken for complete.
 */
export function ensureBinaries(): Promise<string> {
  ensured ??= findOrBuild()
  return ensured
}

/** The Go compiler, also where its installer puts it without touching PATH. */
export async function goCommand(): Promise<string | undefined> {
  for (const name of ['go', '/usr/local/go/bin/go']) {
    const path = await programPath(name)
    if (path && (await exists(path))) return path
  }
  return undefined
}

/** Such as 1.26.3. */
export async function goVersion(go: string): Promise<string> {
  return (await runWith('', [go, 'env', 'GOVERSION'], { GOTOOLCHAIN: 'local' })).trim().replace(/^go/, '')
}

async function findOrBuild(): Promise<string> {
  const go = await goCommand()
  if (!go) throw new Error('Go is not installed')
  const cache = join(cacheFolder(), 'kubernetes')
  const compiler = `${await goVersion(go)} ${process.platform} ${process.arch}`
  const folder = join(cache, await buildKey(compiler, [FLAGS, ENVIRONMENT]))
  if (!(await exists(folder))) {
    await mkdir(cache, { recursive: true })
    const wait = () => say('Waiting for another run that builds Kubernetes')
    await underLock(`${folder}.lock`, async () => (await exists(folder)) || (await buildInto(folder, go)), wait)
    await removeUnused(cache)
  }
  await utimes(folder, new Date(), new Date())
  return join(folder, 'bin')
}

async function buildInto(folder: string, go: string): Promise<void> {
  const unfinished = `${folder}.unfinished`
  await rm(unfinished, { recursive: true, force: true })
  const bin = join(unfinished, 'bin')
  await mkdir(bin, { recursive: true })
  const builds = await everyBuild()
  say(`Building a Kubernetes from Go modules; about ten minutes the first time, kept in ${folder}`)
  for (const [i, build] of builds.entries()) {
    const start = Date.now()
    await compile(go, build, bin)
    say(`  ${i + 1} of ${builds.length}: ${build.what} (${Math.round((Date.now() - start) / 1000)} s)`)
  }
  // From here on it is complete, and not a moment earlier.
  await rename(unfinished, folder)
}

async function compile(go: string, build: Build, bin: string): Promise<void> {
  const ldflags = ['-s -w', ...(build.ldflags ?? [])].join(' ')
  const args = ['build', ...FLAGS, ...(build.flags ?? []), `-ldflags=${ldflags}`, `-o=${join(bin, build.binary)}`]
  const child = spawn(go, [...args, build.package], {
    cwd: moduleFolder(build.module),
    env: { ...process.env, ...ENVIRONMENT },
    stdio: ['ignore', 2, 2],
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  const status = await new Promise((resolve, reject) => child.once('close', resolve).once('error', reject))
  process.removeListener('exit', kill)
  if (status !== 0) throw new Error(`${build.what} could not be built: go ended with ${String(status)}`)
  for (const link of build.links ?? []) await symlink(build.binary, join(bin, link))
}

/** Builds of other versions that nobody has used for two weeks; each has 350 MB. */
async function removeUnused(cache: string): Promise<void> {
  for (const name of await readdir(cache)) {
    const path = join(cache, name)
    if (!/^[0-9a-f]{16}(\.unfinished)?$/.test(name)) continue
    const used = await stat(path).catch(() => undefined)
    if (used && Date.now() - used.mtimeMs > UNUSED_MS) await rm(path, { recursive: true, force: true })
  }
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

const say = (line: string) => void process.stderr.write(`${line}\n`)
