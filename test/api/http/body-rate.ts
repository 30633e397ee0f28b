import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import * as z from 'zod'
import { sessionActions } from '../../../api/auth/policy.ts'
import { BODY_LIMITS } from '../../../api/http/body-rate.ts'
import { type Route, route } from '../../../api/http/route.ts'
import type { Actor } from '../../../api/requests/actor.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { eventually } from '../../support/eventually.ts'
import { noDatabase, PEOPLE, serveRoutes } from '../../support/serve.ts'

const common = {
  tags: ['Test'],
  summary: 'For tests',
  operationId: 'test',
  action: sessionActions.endAll,
  status: 204 as const,
  method: 'put' as const,
}
const errors: unknown[] = []
const routes: Route[] = [
  route({
    ...common,
    path: '/fast',
    bodyKind: 'bytes',
    async handle({ body }) {
      try {
        for await (const _ of body.stream);
      } catch (error) {
        errors.push(error)
        throw error
      }
      return { data: null }
    },
  }),
  route({
    ...common,
    path: '/slow-reader',
    bodyKind: 'bytes',
    async handle({ body }) {
      await sleep(500)
      for await (const _ of body.stream);
      return { data: null }
    },
  }),
  route({ ...common, path: '/document', body: z.object({}), handle: async () => ({ data: null }) }),
  route({
    ...common,
    path: '/refuse',
    problems: ['CONFLICT'],
    bodyKind: 'bytes',
    async handle() {
      throw new Problem('CONFLICT', 'no')
    },
  }),
]
const bodyLimits = { bytesPerSecond: 100_000, windowMs: 200, documentWindowMs: 100, lingerMs: 150 }
const server = await serveRoutes(t, routes, { db: noDatabase, bodyLimits })

const STREAM = 'application/octet-stream'

/**
 * Sends `bytes` every 20 ms, and says what came back and whether the connection is closed, which only the server does:
 * the ten million bytes that were announced never come.
 */
async function drip(
  path: string,
  bytes: number,
  times: number,
  { length = 10_000_000, port = server.port, type = STREAM } = {},
) {
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.on('data', (chunk: Buffer) => {
    answer += chunk.toString()
  })
  socket.on('error', () => {})
  socket.write(
    `PUT ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ann\r\nContent-Type: ${type}\r\nContent-Length: ${length}\r\n\r\n`,
  )
  for (let i = 0; i < times && !socket.destroyed; i++) {
    socket.write(Buffer.alloc(bytes))
    await sleep(20)
  }
  return { socket, closed, answer: () => answer }
}

t.test('a body that arrives drop by drop is answered 408 and cut off', async (t) => {
  const { closed, answer } = await drip('/fast', 10, 100)
  await closed
  t.match(answer(), /^HTTP\/1\.1 408 [\s\S]*connection: close[\s\S]*"code":"REQUEST_TIMEOUT"/i)
  await eventually('the handler to hear of it', () => errors.length > 0)
  t.match(errors[0], { name: 'ClientGone' }, 'and the handler is told')
})

t.test('a body that stops arriving is cut off', async (t) => {
  const { closed, answer } = await drip('/fast', 50_000, 1)
  await closed
  t.match(answer(), / 408 /)
})

t.test('a body that arrives fast enough is left alone', async (t) => {
  const { socket, answer } = await drip('/fast', 10_000, 50, { length: 500_000 })
  await eventually('an answer', answer)
  t.match(answer(), /^HTTP\/1\.1 204/)
  socket.destroy()
})

t.test('a client is not blamed for a handler that does not read', async (t) => {
  const { socket, answer } = await drip('/slow-reader', 3_000_000, 1, { length: 3_000_000 })
  await eventually('an answer', answer)
  t.match(answer(), /^HTTP\/1\.1 204/)
  socket.destroy()
})

t.test('nor for the time before the server begins to read', async (t) => {
  const authenticate = () => sleep(2000, PEOPLE['ann'] as Actor)
  const { port } = await serveRoutes(t, routes, { db: noDatabase, bodyLimits, authenticate })
  const { socket, answer } = await drip('/fast', 40, 5, { length: 200, port })
  await eventually('an answer', answer)
  t.match(answer(), /^HTTP\/1\.1 204/)
  socket.destroy()
})

t.test('who sends on after the answer is cut off after a while', async (t) => {
  const { closed, answer } = await drip('/refuse', 20_000, 60)
  await closed
  t.match(answer(), /^HTTP\/1\.1 409/)
})

t.test('a document has a shorter window than a file: one that does not come holds nothing for long', async (t) => {
  t.ok(BODY_LIMITS.documentWindowMs <= 5000)
  const patient = { ...bodyLimits, windowMs: 3_600_000 }
  const { port } = await serveRoutes(t, routes, { db: noDatabase, bodyLimits: patient })
  const { closed, answer } = await drip('/document', 0, 0, { port, type: 'application/json', length: 1000 })
  await closed
  t.match(answer(), /^HTTP\/1\.1 408 [\s\S]*"code":"REQUEST_TIMEOUT"/)
})
