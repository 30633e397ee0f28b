import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { access, open, readFile } from 'node:fs/promises'
import { delimiter, isAbsolute, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** The first of the programs that this machine lacks, looking where Debian puts servers too. */
export async function missingProgram(names: readonly string[]): Promise<string | undefined> {
  for (const name of names) if (!(await programPath(name))) return name
  return undefined
}

export async function programPath(name: string): Promise<string | undefined> {
  if (isAbsolute(name)) return name
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin', '/usr/bin']
  for (const folder of folders) {
    const path = join(folder, name)
    const found = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (found) return path
  }
  return undefined
}

/** Starts a server that stays in the foreground; what it says goes to a file. */
export async function startProcess(
  name: string,
  args: readonly string[],
  logFile: string,
  more: Pick<SpawnOptions, 'detached' | 'env'> = {},
): Promise<ChildProcess> {
  const log = await open(logFile, 'a')
  try {
    const options: SpawnOptions = { stdio: ['ignore', log.fd, log.fd], ...more }
    const program = (await programPath(name)) ?? name
    // A test that is killed, as tap does after its time, takes its servers along.
    const setpriv = await programPath('setpriv')
    const child = setpriv
      ? spawn(setpriv, ['--pdeathsig', 'KILL', program, ...args], options)
      : spawn(program, args, options)
    const kill = () => child.kill('SIGKILL')
    process.once('exit', kill)
    child.once('exit', () => process.removeListener('exit', kill))
    await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject))
    return child
  } finally {
    await log.close()
  }
}

/** Runs a program to its end and gives what it wrote; throws that when it fails. */
export async function runProgram(
  name: string,
  args: readonly string[],
  timeoutMs = 240_000,
  more: Pick<SpawnOptions, 'env'> = {},
): Promise<string> {
  const child = spawn((await programPath(name)) ?? name, args, {
    ...more,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: timeoutMs,
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (d: string) => (output += d))
  const code = await new Promise((resolve, reject) => child.once('close', resolve).once('error', reject))
  if (code !== 0) throw new Error(`${name} ${args.join(' ')} ended with ${code}:\n${output.slice(-2000)}`)
  return output
}

export async function stopProcess(child: ChildProcess, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  child.kill(signal)
  const late = sleep(10_000, undefined, { ref: false }).then(() => void child.kill('SIGKILL'))
  await Promise.race([gone, late.then(() => gone)])
}

/** Asks again and again until it is true; a server that has ended meanwhile, or stays silent, fails with its log. */
export async function waitFor(what: string, child: ChildProcess, logFile: string, ready: () => Promise<boolean>) {
  for (const end = Date.now() + 240_000; Date.now() < end; await sleep(50)) {
    if (child.exitCode !== null || child.signalCode !== null) break
    if (await ready().catch(() => false)) return
  }
  throw new Error(`${what} did not start:\n${(await readFile(logFile, 'utf8').catch(() => '')).slice(-2000)}`)
}
