import { createServer } from 'node:http'
import { join } from 'node:path'
import * as z from 'zod'
import { closeServer, listenOnPort } from './http-server.ts'
import { readIfThere, writePrivateFile } from './private-file.ts'

/** Where the platform would like to listen when nobody says otherwise. */
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
 * Ports that are free now: those that this folder had before, else the usual ones, else any. `public` may be demanded,
 * and is then not replaced by another. `usual: false` for tests, which must not get in each other's way.
 */
export async function choosePorts(
  folder: string,
  options: { public?: number | undefined; usual: boolean },
): Promise<Ports> {
  const path = join(folder, 'ports.json')
  const before = Remembered.parse(JSON.parse((await readIfThere(path)) ?? '{}'))
  const chosen: Partial<Ports> = {}
  for (const name of Object.keys(WANTED) as PortName[]) {
    const demanded = name === 'public' ? options.public : undefined
    const taken = Object.values(chosen)
    chosen[name] = demanded
      ? await demand(demanded)
      : await firstFree([before[name], options.usual ? WANTED[name] : undefined], taken)
  }
  const ports = chosen as Ports
  await writePrivateFile(path, JSON.stringify(ports))
  return ports
}

async function demand(port: number): Promise<number> {
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

/** Below those that kernels hand out to whoever does not care (from 32,768 on Linux, from 49,152 elsewhere). */
const FIRST_PORT = 20_000
const PORTS = 10_000
let asked = 0

/**
 * A port nobody listens on now and nobody is given by accident: it is likely to be free still when it is used, and
 * again after a restart. Processes look in different places, so that two that start at once do not find the same.
 */
export async function freePort(): Promise<number> {
  for (let left = PORTS; left > 0; left--) {
    const port = await bind(FIRST_PORT + ((process.pid * 16 + asked++) % PORTS))
    if (port !== undefined) return port
  }
  throw new Error('This machine has no free port')
}

/** The port, if it could be had. */
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
