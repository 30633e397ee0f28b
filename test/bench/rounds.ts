import { Client, type Dispatcher } from 'undici'
import type { Child } from './children.ts'

export interface Shape {
  name: string
  connections: number
  requests: number
}
/** Milliseconds per request. */
export interface Cost {
  wall: number
  cpu: number
}
export interface Side {
  child: Child
  /** The next request. Each must succeed. */
  next(): Dispatcher.RequestOptions
}

/** Both shapes in which servers are compared. */
export const shapesOf = (requests: number): Shape[] => [
  { name: 'one after another', connections: 1, requests },
  { name: '8 at a time', connections: 8, requests: requests * 4 },
]

/** What each side costs in each of so many alternating rounds, so that whatever else the machine does meets all. */
export async function costsOf(sides: readonly Side[], shape: Shape, rounds: number): Promise<Cost[][]> {
  const costs: Cost[][] = sides.map(() => [])
  for (const side of sides) await run(side, shape)
  for (let round = 0; round < rounds; round++) {
    const order = [...sides.keys()]
    for (const i of round % 2 ? order.reverse() : order) costs[i]?.push(await run(sides[i] as Side, shape))
  }
  return costs
}

/** So many requests over so many kept connections. */
async function run({ child, next }: Side, { connections, requests }: Shape): Promise<Cost> {
  const clients = Array.from({ length: connections }, () => new Client(child.url))
  const before = await child.usage()
  const started = performance.now()
  let left = requests
  const work = async (client: Client) => {
    while (left-- > 0) {
      const request = next()
      const { statusCode, body } = await client.request(request)
      if (statusCode < 300 || statusCode === 304) await body.dump()
      else throw new Error(`${request.path} answered ${statusCode}: ${await body.text()}`)
    }
  }
  await Promise.all(clients.map(work))
  const wall = performance.now() - started
  const after = await child.usage()
  await Promise.all(clients.map((client) => client.close()))
  return { wall: wall / requests, cpu: ((after.cpu - before.cpu) * 1000) / requests }
}
