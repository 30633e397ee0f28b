import { readdirSync, readFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { apiSettings } from '../support/api.ts'
import { eventually } from '../support/eventually.ts'
import { type Child, startChild, type Usage } from './children.ts'
import { fillMedia, ROWS } from './many-media.ts'
import { type Cost, costsOf, type Side } from './rounds.ts'
import { inWorld, median, type World } from './world.ts'

/**
 * What pages of media cost one process of the API, and two behind one port: rounds of the two alternate. The load
 * generator and Postgres use the same cores, so the gain in time is what they leave over. CPU and memory are those of all
 * processes, the supervisor's too. `BENCH_ROUNDS` (9) changes how many.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 9)
const SHAPE = { name: '16 at a time', connections: 16, requests: 1600 }
const COUNTS = [1, 2]
const CLOCK_TICKS = 100
const MIB = 2 ** 20

async function measure(world: World): Promise<string> {
  await fillMedia(world, ROWS)
  const apis: Child[] = []
  try {
    for (const count of COUNTS) apis.push(await startApi(world, count))
    const next = () => ({
      method: 'GET' as const,
      path: `/v1/api/media/${world.org}?limit=20`,
      headers: { authorization: `Bearer ${world.token}` },
    })
    const costs = await costsOf(
      apis.map((child): Side => ({ child: wholeTree(child), next })),
      SHAPE,
      ROUNDS,
    )
    return table(apis, costs)
  } finally {
    await Promise.all(apis.map((api) => api.stop()))
  }
}

async function startApi({ database, identity, folder }: World, count: number): Promise<Child> {
  const own = join(folder, `processes-${count}`)
  await mkdir(own)
  const child = await startChild('api-child.ts', own, {
    ...apiSettings(database, join(own, 'store')),
    CHECK_RESPONSES: 'false',
    RATE_LIMIT_FACTOR: '1000000',
    AUTH_ISSUER: identity.issuer,
    AUTH_AUDIENCE: identity.audience,
    AUTH_JWKS_URL: identity.jwksUrl,
    API_PROCESSES: String(count),
    DATABASE_CONNECTIONS: String(10 * count),
  })
  const log = join(own, 'api-child.ts.log')
  if (count > 1) await eventually('all listen', () => readFileSync(log, 'utf8').includes('all processes listen'))
  return child
}

/** The same program, with the CPU of the processes that it has started. */
const wholeTree = (child: Child): Child => ({
  ...child,
  usage: async (): Promise<Usage> => {
    const own = await child.usage()
    return { ...own, cpu: own.cpu + childrenOf(child.pid).reduce((sum, pid) => sum + cpuOf(pid), 0) }
  },
})

const childrenOf = (pid: number): number[] =>
  readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number),
  )

/** Seconds, of the user's and the system's time. */
function cpuOf(pid: number): number {
  const [, rest = ''] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')
  const fields = rest.split(' ')
  return (Number(fields[11]) + Number(fields[12])) / CLOCK_TICKS
}

const residentOf = (pid: number): number =>
  (Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024) / MIB

function table(apis: Child[], costs: Cost[][]): string {
  const rows = COUNTS.map((count, i) => {
    const of = (what: keyof Cost) => median((costs[i] ?? []).map((cost) => cost[what]))
    const pid = apis[i]?.pid ?? 0
    const memory = [pid, ...childrenOf(pid)].map((one) => residentOf(one).toFixed(0))
    const perSecond = (1000 / of('wall')).toFixed(0)
    return `| ${count} | ${perSecond} | ${of('wall').toFixed(2)} | ${of('cpu').toFixed(2)} | ${memory.join(' + ')} |`
  })
  return [
    `Pages of 20 of ${ROWS} media, ${SHAPE.name}, medians of ${ROUNDS} alternating rounds`,
    '',
    '| processes | pages per second | wall ms | CPU ms, all processes | MiB resident after it |',
    '|---|---|---|---|---|',
    ...rows,
  ].join('\n')
}

console.log(await inWorld(measure))
