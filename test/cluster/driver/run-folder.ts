import { mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { hasEnded, ownIdentity, type ProcessIdentity } from './proc.ts'
import { removeTraces } from './traces.ts'

/** Short, because a unix socket's path may have 107 characters and containerd's lie in it. */
const PREFIX = 'ks-k8s-'
const STATE = 'run.json'
const UNFINISHED_MS = 60_000
const LONGEST = 80
const mine = new Set<string>()

/** All that one cluster has on this machine lies in its folder or is named after it, so that anybody can remove it. */
export interface RunFolder {
  path: string
  /** Also the name of its network namespace, its cgroups and its CNI network. */
  name: string
  file(...names: string[]): string
  /** Ends what is left of the cluster and removes the folder. */
  remove(): Promise<void>
}

/** A new private folder, after what killed runs have left behind was cleared away. */
export async function openRunFolder(): Promise<RunFolder> {
  await sweepDeadRuns()
  const path = await mkdtemp(join(tmpdir(), PREFIX))
  if (path.length > LONGEST) throw new Error(`The temporary folder's path is too long for unix sockets: ${path}`)
  mine.add(path)
  const run = { path, name: basename(path), file: (...names: string[]) => join(path, ...names) }
  await writeFile(run.file('new'), JSON.stringify({ owner: await ownIdentity() }))
  await rename(run.file('new'), run.file(STATE))
  return { ...run, remove: () => removeRun(path) }
}

/** Clears away the runs whose owner has ended; says which. Doing it twice, or two at once, does no harm. */
export async function sweepDeadRuns(): Promise<string[]> {
  const found = (await readdir(tmpdir())).filter((name) => name.startsWith(PREFIX)).map((name) => join(tmpdir(), name))
  const dead: string[] = []
  for (const path of found) if (await isDead(path)) dead.push(path)
  for (const path of dead) await removeRun(path)
  return dead
}

/** Ends everything that this process has started, in whatever state it is: for when it is told to go at once. */
export async function removeOwnRuns(): Promise<void> {
  for (const path of mine) await removeRun(path)
}

async function isDead(path: string): Promise<boolean> {
  try {
    const { owner } = JSON.parse(await readFile(join(path, STATE), 'utf8')) as { owner: ProcessIdentity }
    return await hasEnded(owner)
  } catch {
    // Killed between making the folder and signing it, or about to sign it just now.
    const made = await stat(path).catch(() => undefined)
    return made !== undefined && Date.now() - made.mtimeMs > UNFINISHED_MS
  }
}

async function removeRun(path: string): Promise<void> {
  await removeTraces(path, basename(path))
  await rm(path, { recursive: true, force: true, maxRetries: 5 })
  mine.delete(path)
}
