import type { Request, RequestHandler, Response } from 'express'
import { Problem, Throttled } from '../../lib/contract/problem.ts'
import type { Log } from '../../lib/runtime/log.ts'
import type { Refusals } from '../audit/refusals.ts'
import type { Database } from '../db/db.ts'
import { asCaller } from '../limits/fair-database.ts'
import { countsDone, type Limits, limitOf } from '../limits/limits.ts'
import type { Caller } from '../limits/policy.ts'
import { permitCaller } from '../permissions/permit.ts'
import type { Actor } from '../requests/actor.ts'
import type { RawReply } from '../requests/bytes.ts'
import type { Context } from '../requests/context.ts'
import type { Opening } from '../requests/event-stream.ts'
import { type Admissions, openAdmissions } from './admission.ts'
import type { Bodies } from './bodies.ts'
import { clientAddress } from './client-address.ts'
import { type EventStreams, sendStreamHead } from './event-streams.ts'
import { type Attempt, beginAttempt, idempotencyKeyOf, requireSameBody, type Stored } from './idempotency.ts'
import { problemsOf } from './openapi-problems.ts'
import { type Received, readInput, restJoined } from './read-input.ts'
import { contextOf, stateOf } from './request.ts'
import { DEPRECATION, render, sendIfCurrent, sendRaw, sendReply, sendStored } from './respond.ts'
import { type AuthedInput, type Reply, type Route, takesIdempotencyKey } from './route.ts'
import { checkParams, organizationIn } from './validate.ts'

export interface ServeOptions {
  /** Stores the idempotency keys. */
  db: Database
  /** Turns the Authorization header into an actor, or throws a Problem. */
  authenticate(
    authorization: string | undefined,
    request: { log: Log; ip?: string; closedToo?: boolean },
  ): Promise<Actor>
  /** Records refusals of the permission service. */
  refusals: Refusals
  /** Encrypts what the audit log says about people. */
  personalData: Context['personalData']
  /**
   * Set in tests and development: deviations from the document fail the request instead of being logged. These are a
   * response that does not fit its schema, an undeclared Problem, and a success without a permission decision.
   */
  checkResponses: boolean
  /** Rate limits; no limits if left out. */
  limits?: Limits | undefined
  /** Limits the bodies that arrive at the same time; no limit if left out. */
  bodies?: Bodies | undefined
  /** Where there are routes of event streams. */
  streams?: EventStreams | undefined
}

const NO_ACTOR: Actor = { userId: '', platformAdmin: false, sessionId: null }

/** One operation as an Express handler. The order matters: actor, limits, right, input, idempotency key, then the work. */
export function serve(route: Route, options: ServeOptions): RequestHandler {
  const admitted = openAdmissions()
  return async (req, res) => {
    const state = stateOf(res)
    state.route = route.path
    if (route.problemPage) state.problemPage = route.problemPage
    if (route.deprecated) res.set(DEPRECATION)
    const isIdentified = !route.public || (route.identifies && req.get('authorization') !== undefined)
    const actor = isIdentified ? await identify(route, req, res, options) : NO_ACTOR
    if (isIdentified) Object.assign(state, { userId: actor.userId, sessionId: actor.sessionId })
    const caller = { ip: clientAddress(req), userId: actor.userId }
    await options.limits?.take(limitOf(route), caller, res)
    await asCaller(caller, () => serveCaller(route, options, { req, res, actor, caller, admitted })).catch(
      async (error: unknown) => {
        const by = isUnauthorized(error) ? 'unauthorized' : isThrottled(error) ? 'throttled' : undefined
        if (by) await options.limits?.noteRefused(limitOf(route), caller, by)
        throw error
      },
    )
  }
}

interface Called {
  req: Request
  res: Response
  actor: Actor
  caller: Caller
  admitted: Admissions
}

async function serveCaller(route: Route, options: ServeOptions, called: Called): Promise<void> {
  const { req, res, actor, caller } = called
  // Before the input: a 400 would show a caller without the right that the operation exists. And before a stored
  // response is looked for: what a caller may no longer ask is not replayed either.
  await requireRight(route, options, called)
  const given = restJoined(req.params)
  const params = checkParams(route, given)
  await admit(route, options, { ...called, given })
  const key = takesIdempotencyKey(route) && !actor.isClosed ? idempotencyKeyOf(req.get('idempotency-key')) : undefined
  const leave = await options.bodies?.enter(route, caller, req, res)
  const input = await readInput(route, req, params, key !== undefined)
  // A document has arrived whole: what follows, such as a slow identity provider, must not hold its slot.
  if (!input.streamed) leave?.()
  try {
    const account = route.account?.(input.body, input.params)
    if (account !== undefined) await options.limits?.takeForAccount(limitOf(route), { ...caller, account }, res)
    await run({ route, options, req, res, actor, caller, key, input }).catch((error: unknown) => {
      throw declared(route, options, res, error)
    })
  } finally {
    input.streamed?.abandon()
  }
}

/** That what the handler asks, such as the identity provider, refuses to be asked more often. Those of our limits do not count. */
const isThrottled = (error: unknown) => error instanceof Problem && error.cause instanceof Throttled

const isUnauthorized = (error: unknown) => error instanceof Problem && error.code === 'UNAUTHORIZED'

/** A refused request counts against its address: requests with no token or a guessed one must stay cheap to refuse. */
async function identify(
  { closedToo }: Route,
  req: Request,
  res: Response,
  { authenticate, limits }: ServeOptions,
): Promise<Actor> {
  try {
    return await authenticate(req.get('authorization'), askedBy(req, res, closedToo))
  } catch (error) {
    if (isUnauthorized(error)) await limits?.takeUnauthorized({ ip: clientAddress(req), userId: '' }, res)
    throw error
  }
}

/** The log of a request is made on first use. */
const askedBy = (req: Request, res: Response, closedToo?: true) => ({
  get log() {
    return stateOf(res).log
  },
  ip: clientAddress(req),
  closedToo: closedToo === true,
})

/** Decides on an action of kind `caller`: it needs nothing of the input. */
async function requireRight(route: Route, options: ServeOptions, { req, res, actor }: Called): Promise<void> {
  if (route.action?.on !== 'caller') return
  const context = contextOf(req, res, { ...options, remember: async () => {} })
  await permitCaller(route.action, { actor, context }, options.refusals).catch((error: unknown) => {
    throw declared(route, options, res, error)
  })
}

/**
 * Decides on the membership before the body is read, where the path names the organization: a body takes a slot and
 * memory, which a stranger must not hold. And a stranger gets the same 404 whatever the body or the rest of the path says.
 */
async function admit(route: Route, options: ServeOptions, o: Called & { given: object }): Promise<void> {
  const { req, res, actor, admitted } = o
  const { readmit } = route
  const orgId = route.body || route.bodyKind ? organizationIn(route, o.given) : undefined
  if (!readmit || orgId === undefined) return
  const context = contextOf(req, res, { ...options, remember: async () => {} })
  const asked = {
    context,
    method: req.method,
    params: { org_id: orgId },
    query: {},
    body: {},
    headers: req.headers,
    actor,
  }
  const decide = () => readmit(asked)
  await admitted.require(actor.userId, orgId, decide).catch((error: unknown) => {
    throw declared(route, options, res, error)
  })
}

interface Run {
  route: Route
  options: ServeOptions
  req: Request
  res: Response
  actor: Actor
  caller: Caller
  key: string | undefined
  input: Received
}

async function run(r: Run): Promise<void> {
  if (r.key === undefined) return answer(r, undefined)
  const scope = { userId: r.actor.userId, method: r.route.method, route: r.route.path, key: r.key }
  const begun = await beginAttempt(r.options.db, stateOf(r.res).log, scope, r.input.digest)
  if ('data' in begun) await replay(r, begun)
  else await attempt(r, begun)
}

async function replay(r: Run, stored: Stored): Promise<void> {
  const { res, route, input } = r
  // `handle`, which asks for the membership, does not run: without this a removed member would read the response.
  await route.readmit?.(inputOf(r, async () => {}))
  // The digest, which shows whether this is the same request, is known only after the whole body has been read.
  await input.streamed?.drain()
  requireSameBody(stored.bodyHash, input.digest())
  const kept = route.completion ? await shownOf(r, stored.data) : stored.data
  const data = route.renewal ? route.renewal(kept) : kept
  sendStored(res, route, { ...stored, data })
}

/** The response of what the handler returned. */
async function shownOf({ route, options, res }: Run, data: unknown): Promise<unknown> {
  return render(route, (await route.completion?.complete(data)) ?? data, options.checkResponses, res)
}

/** What is stored of it under an Idempotency-Key. */
const keptOf = ({ route, options, res }: Run, data: unknown): unknown =>
  route.completion ? route.completion.of.parse(data) : render(route, data, options.checkResponses, res)

async function attempt(r: Run, attempt: Attempt): Promise<void> {
  try {
    await answer(r, attempt)
  } catch (error) {
    await attempt.failed()
    throw error
  }
}

async function answer(r: Run, attempt: Attempt | undefined): Promise<void> {
  const { route, options, req, res, caller } = r
  if (route.isStream) return follow(r)
  let isCounted = false
  const remember: Context['remember'] = async (tx, status, data) => {
    await attempt?.remember(tx, status, keptOf(r, data))
    // Last: it locks the counters of the caller.
    await options.limits?.takeDone(limitOf(route), caller, tx, res)
    isCounted = true
  }
  const reply = await route.handle(inputOf(r, remember))
  requireDecision(route, options, res)
  // A closed account makes nothing any more.
  if (!isCounted && !r.actor.isClosed) requireCount(route, options, res)
  if (route.raw) return sendRaw(req, res, reply as RawReply)
  const made = reply as Reply<unknown>
  if (isUnmade(made.data) && made.etag !== undefined && sendIfCurrent(req, res, made.etag)) return
  const whole = isUnmade(made.data) ? await made.data() : made.data
  const data = await shownOf(r, whole)
  await attempt?.succeeded(made.status ?? route.status, route.completion ? keptOf(r, whole) : data)
  sendReply(req, res, route, made, data)
}

const isUnmade = (data: unknown): data is () => Promise<unknown> => typeof data === 'function'

/** An answer that stays open: the request is served when its head is sent. */
async function follow(r: Run): Promise<void> {
  const { route, options, req, res, actor } = r
  const { streams } = options
  if (!streams) throw new Error(`${route.operationId} is an event stream, and this server has none`)
  const place = streams.enter()
  try {
    const opening = (await route.handle(inputOf(r, async () => {}))) as Opening
    requireDecision(route, options, res)
    if (req.method === 'HEAD') return sendStreamHead(res)
    const authorization = req.get('authorization')
    const state = stateOf(res)
    // A sign-out since the request began.
    const asked = askedBy(req, res)
    const check = () => options.authenticate(authorization, asked)
    await check()
    state.followedAt = performance.now()
    place.open({ userId: actor.userId, validUntil: actor.validUntil, check, res, opening })
  } finally {
    place.leave()
  }
}

function inputOf({ options, req, res, actor, input }: Run, remember: Context['remember']) {
  const { params, query, body } = input
  const context = contextOf(req, res, { ...options, remember })
  const known = actor === NO_ACTOR ? {} : { actor }
  return { context, method: req.method, params, query, body, headers: req.headers, ...known } as AuthedInput<
    unknown,
    unknown,
    unknown
  >
}

/** A success without a permission decision is a bug: the handler never called `permit`. */
function requireDecision(route: Route, options: ServeOptions, res: Response): void {
  if (route.public || stateOf(res).isDecided) return
  const error = new Error(`${route.operationId} succeeded without a decision on ${route.action?.name}`)
  if (options.checkResponses) throw error
  stateOf(res).log.error({ err: error }, 'no decision of the permission service')
}

/** A success that its class counts, and that was not counted, is a bug: the handler never called `remember`. */
function requireCount(route: Route, options: ServeOptions, res: Response): void {
  if (!countsDone(limitOf(route))) return
  const error = new Error(`${route.operationId} succeeded without a count of what it has done`)
  if (options.checkResponses) throw error
  stateOf(res).log.error({ err: error }, 'no count against the limit of an operation')
}

/** Reports a Problem that the document does not declare. */
function declared(route: Route, options: ServeOptions, res: Response, error: unknown): unknown {
  if (!(error instanceof Problem) || problemsOf(route).includes(error.code)) return error
  const undeclared = new Error(`${route.operationId} does not declare ${error.code}`, { cause: error })
  if (options.checkResponses) return undeclared
  stateOf(res).log.error({ err: undeclared }, 'undeclared problem')
  return error
}
