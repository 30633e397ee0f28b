import { createServer } from 'node:http'
import { join } from 'node:path'
import * as z from 'zod'
import { closeServer, listenOnPort } from './http-server.ts'
import { readIfThere, writePrivateFile } from './private-file.ts'

/** The default ports. */
const WANTED = {
  public: 8080,
  internal: 8081,
  metrics: 9090,
  identity: 8082,
  page: 8083,
  progress: 8084,
  worker: 8085,
  operator: 8086,
  workerMetrics: 9091,
  operatorMetrics: 9092,
}
export type PortName = keyof typeof WANTED
export type Ports = Record<PortName, number>
const Remembered = z.record(z.string(), z.int().min(1).max(65_535))

/**
 * Chooses free ports: those of the folder's last start, else the default ones, else any. A `public` port that is
 * requested is never replaced. `usual: false` skips the default ones, for tests that run at the same time.
 */
export async function choosePorts(
  folder: string,
  options: { public?: number | undefined; usual: boolean },
): Promise<Ports> {
  const path = join(folder, 'ports.json')
  const before = Remembered.parse(JSON.parse((await readIfThere(path)) ?? '{}'))
  const chosen: Partial<Ports> = {}
  for (const name of Object.keys(WANTED) as PortName[]) {
    const requested = name === 'public' ? options.public : undefined
    const taken = Object.values(chosen)
    chosen[name] = requested
      ? await requireFree(requested)
      : await firstFree([before[name], options.usual ? WANTED[name] : undefined], taken)
  }
  const ports = chosen as Ports
  for (const port of Object.values(ports)) chosenHere.add(port)
  await writePrivateFile(path, JSON.stringify(ports))
  return ports
}

async function requireFree(port: number): Promise<number> {
  if (await bind(port)) return port
  throw new Error(`Port ${port} is taken by another program`)
}

async function firstFree(candidates: (number | undefined)[], taken: number[]): Promise<number> {
  for (const candidate of candidates) {
    const port = candidate !== undefined && !taken.includes(candidate) ? await bind(candidate) : undefined
    if (port !== undefined) return port
  }
  const port = await freePort()
  return taken.includes(port) ? firstFree([], taken) : port
}

/** Below the ephemeral ports that kernels assign (from 32,768 on Linux, from 49,152 elsewhere). */
const FIRST_PORT = 20_000
const PORTS = 10_000
let asked = 0

/**
 * The ports of `choosePorts`, whose programs start later than the database. The process that chose them first may have
 * searched from the same port as this one: the places repeat every 625 process ids.
 */
const chosenHere = new Set<number>()

/**
 * A port that is free now and that the kernel assigns to no other program, so it is likely to be free still when it is
 * used, and after a restart. Processes search from different ports, so two that start together find different ones.
 */
export async function freePort(): Promise<number> {
  for (let left = PORTS; left > 0; left--) {
    const candidate = FIRST_PORT + ((process.pid * 16 + asked++) % PORTS)
    const port = chosenHere.has(candidate) ? undefined : await bind(candidate)
    if (port !== undefined) return port
  }
  throw new Error('This machine has no free port')
}

/** Resolves with the port if it is free. */
async function bind(port: number): Promise<number | undefined> {
  const server = createServer()
  try {
    return await listenOnPort(server, port)
  } catch {
    return undefined
  } finally {
    if (server.listening) await closeServer(server)
  }
}
