import { randomUUID } from 'node:crypto'
import { openAuth } from '../../api/auth/open-auth.ts'
import { verifyToken } from '../../api/auth/verify-token.ts'
import type { ApiConfig } from '../../api/config.ts'
import { newUuid } from '../../lib/contract/ids.ts'
import { systemClock } from '../../lib/runtime/clock.ts'
import { testDatabase } from '../support/database.ts'
import { startTestIdentity, tokenSettings } from '../support/identity.ts'
import { readableLog } from '../support/readable-log.ts'
import { median } from './world.ts'

/**
 * What it costs to authenticate a request: with a token that the process knows, beside the verification of the same token
 * each time. In this process, on a real database, with as many users as `BENCH_USERS` (1000), each with a token of their
 * own; rounds alternate, medians of `BENCH_ROUNDS` (15) are compared.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 15)
const USERS = Number(process.env['BENCH_USERS'] ?? 1000)
const TIMES = 5
/** Milliseconds of CPU. */
const TARGET = 0.1

const stops: (() => Promise<void>)[] = []
const ending = { teardown: (done: () => Promise<void>) => void stops.unshift(done) }
const identity = await startTestIdentity(ending)
const { db } = await testDatabase(ending)
const { log } = readableLog()
const config = {
  ...tokenSettings(identity),
  AUTH_JWKS_URL: identity.jwksUrl,
  AUTH_WEBHOOK_SECRETS: [],
  AUTH_LOGOUT_CLIENT_IDS: [],
  ERASURE_KEY: 'a-key-of-the-tests-which-names-users-in-the-ledger',
} as unknown as ApiConfig
const auth = openAuth({ config, db, log, clock: systemClock })
await auth.keys.start()
auth.revocations.start()
ending.teardown(async () => {
  auth.keys.stop()
  await Promise.all([auth.revocations.stop(), auth.lastUses.close()])
})

try {
  await measure()
} finally {
  for (const stop of stops) await stop()
}

async function measure(): Promise<void> {
  const tokens: string[] = []
  for (let n = 0; n < USERS; n++) tokens.push(await identity.token({ sub: newUuid(), claims: { sid: randomUUID() } }))
  const known = (token: string) => auth.authenticate(`Bearer ${token}`, { log, ip: '203.0.113.7' })
  const verified = (token: string) => verifyToken(token, auth.verifier)
  for (let at = 0; at < USERS; at += 20) await Promise.all(tokens.slice(at, at + 20).map(known))
  const costs: { known: number[]; verified: number[] } = { known: [], verified: [] }
  for (let round = 0; round < ROUNDS; round++) {
    costs.known.push(await cpuOf(known, tokens))
    costs.verified.push(await cpuOf(verified, tokens))
  }
  const [fast, slow] = [median(costs.known), median(costs.verified)]
  const isMet = fast <= TARGET
  console.log(
    [
      `Medians of ${ROUNDS} alternating rounds of ${USERS * TIMES} requests of ${USERS} users, milliseconds of CPU each`,
      '',
      '| a known token | verifying each time | ratio | target |',
      '|---|---|---|---|',
      `| ${fast.toFixed(4)} | ${slow.toFixed(4)} | ${(slow / fast).toFixed(0)} | ${TARGET}: ${isMet ? 'met' : 'MISSED'} |`,
    ].join('\n'),
  )
  if (!isMet) process.exitCode = 1
}

/** Milliseconds of CPU for each of the tokens. */
async function cpuOf(work: (token: string) => Promise<unknown>, tokens: readonly string[]): Promise<number> {
  const before = process.cpuUsage()
  for (let times = 0; times < TIMES; times++) for (const token of tokens) await work(token)
  const { user, system } = process.cpuUsage(before)
  return (user + system) / 1000 / (tokens.length * TIMES)
}
