import { randomUUID } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod'
import { int } from '../../lib/runtime/config.ts'
import type { EventBus } from '../../lib/runtime/event-bus/event-bus.ts'
import { moveToCold } from '../../lib/runtime/object-store/move-to-cold.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'

const address = z.string().min(1).describe('Host and port of a Service, separated by a space')

/** Where the programs are. What is outside is configured as for the worker. */
export const CheckConfig = z.object({
  API: address,
  API_INTERNAL: address,
  OPERATOR: address,
  BASE_PATH: z.string().default('').describe('Of the API'),
  TOKEN_TYPE: z.string().min(1).describe('The `typ` of access tokens'),
  CHECK_SECONDS: int(0, 600).default(60).describe('How long checks that fail are retried, all of them together'),
})
export type CheckConfig = z.output<typeof CheckConfig>

type Checks = Record<string, () => Promise<void>>

/** A check rejects with the reason why the installation does not work. */
export function checksOf(config: CheckConfig, store: ObjectStore, bus: EventBus): Checks {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const forged = [part({ alg: 'RS256', kid: 'helm-test', typ: config.TOKEN_TYPE }), part({}), 'AAAA'].join('.')
  const authorization = `Bearer ${forged}`
  const api = urlOf(config.API)
  return {
    'The API answers': answers(200, `${api}/health`),
    'It reaches its database': answers(200, `${urlOf(config.API_INTERNAL)}/readyz`),
    // An unknown key makes the API fetch the provider's keys: it answers 401 if it could, 503 if not.
    'It reaches auth.jwksUrl': answers(401, `${api}${config.BASE_PATH}/api/media/helm-test`, {
      headers: { authorization },
    }),
    // The operator refuses reports without a token, so 401 shows that it answers.
    'The operator answers': answers(401, `${urlOf(config.OPERATOR)}/progress`, { method: 'POST' }),
    'The object store stores an object': () => roundTrip(store),
    'It moves an object to its cold tier': () => moveAway(store),
    'NATS has its streams': () => bus.check(),
  }
}

function urlOf(address: string): string {
  const [host = '', port = ''] = address.split(' ')
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}

const answers = (expected: number, url: string, init: RequestInit = {}) => {
  return async () => {
    const { status } = await fetch(url, { ...init, signal: AbortSignal.timeout(5000) })
    if (status !== expected) throw new Error(`${init.method ?? 'GET'} ${url} answered ${status} instead of ${expected}`)
  }
}

async function roundTrip(store: ObjectStore): Promise<void> {
  const key = `helm-test/${randomUUID()}`
  await store.put(key, key, { contentType: 'text/plain' })
  const { body } = await store.get(key)
  if ((await text(body)) !== key) throw new Error('the object read differs from the one written')
  await store.delete(key)
}

async function moveAway(store: ObjectStore): Promise<void> {
  await store.checkColdTier()
  const key = `helm-test/${randomUUID()}/original`
  await store.put(key, key, { contentType: 'text/plain' })
  const moved = await moveToCold(store, key)
  for (const left of [key, moved.key]) await store.delete(left)
}

/** Retries each check every second until `seconds` have passed since the first one. Returns how many failed. */
export async function runChecks(
  checks: Checks,
  on: { seconds: number; print: (line: string) => void },
): Promise<number> {
  const until = performance.now() + on.seconds * 1000
  let failed = 0
  for (const [what, check] of Object.entries(checks)) {
    const error = await untilItPasses(check, until)
    if (error !== undefined) failed++
    on.print(error === undefined ? `ok: ${what}` : `FAILED: ${what}: ${reasonOf(error)}`)
  }
  return failed
}

async function untilItPasses(check: () => Promise<void>, until: number): Promise<Error | undefined> {
  for (;;) {
    try {
      await check()
      return undefined
    } catch (error) {
      if (performance.now() >= until) return error as Error
      await sleep(1000)
    }
  }
}

function reasonOf({ message, cause }: Error): string {
  if (cause === undefined) return message
  return `${message} (${cause instanceof Error ? cause.message : String(cause)})`
}
