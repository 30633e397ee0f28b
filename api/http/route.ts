import type { IncomingHttpHeaders } from 'node:http'
import type * as z from 'zod'
import type { Problem, ProblemCode } from '../../lib/contract/problem.ts'
import type { LimitClass } from '../limits/classes.ts'
import type { Action } from '../permissions/rule.ts'
import type { Actor } from '../requests/actor.ts'
import type { BodyKind, BytesBody, MultipartBody, RawReply, TextType } from '../requests/bytes.ts'
import type { Context } from '../requests/context.ts'
import type { Opening } from '../requests/event-stream.ts'

export interface Input<P, Q, B> {
  context: Context
  /** HEAD is served as GET. */
  method: string
  /** Of the caller; of a public operation only if it `identifies`, and the request has a token. */
  actor?: Actor | undefined
  params: P
  query: Q
  body: B
  /** Request headers, for ranges and digests. */
  headers: IncomingHttpHeaders
}
export interface AuthedInput<P, Q, B> extends Input<P, Q, B> {
  actor: Actor
}

/** What a JSON handler returns. `status` overrides the declared success status (e.g. 200 on a repeated merge). */
export interface Reply<R> {
  /** A function is called unless the client has the data already, which `etag` then says. */
  data: R | (() => Promise<R>)
  status?: number
  headers?: Record<string, string>
  /**
   * Input of the weak entity tag where hashing the rendered data would cost too much: everything the body depends on.
   * By default the tag of a GET is a hash of the rendered data, so that every change of it changes the tag.
   */
  etag?: string
}

interface Common {
  method: 'get' | 'post' | 'patch' | 'put' | 'delete'
  /** Below the base path, with `{name}` placeholders; a final `{+name}` matches the rest of the path, with slashes. */
  path: `/${string}`
  operationId: string
  tags: string[]
  summary: string
  description?: string
  /** Request headers that the handler reads, for the document. Only the handler checks them. */
  headers?: z.ZodObject
  /** Other statuses of success, with the same data, and their meaning: 200 for a merge that was complete before. */
  alsoStatus?: Record<number, string>
  /** Problems of this operation besides those that its shape implies (400, 401, 429, 500, 503). */
  problems?: ProblemCode[]
  deprecated?: boolean
  /**
   * A POST that only reads, because its filter is too large or too private for a URL. It takes no Idempotency-Key: a
   * stored answer would outlive what it shows.
   */
  isQuery?: true
  /** Also served at the host root, as RFC 8615 requires for /.well-known. */
  atRoot?: boolean
  /** The class of rate limits that this operation counts against; `general` otherwise. */
  limit?: LimitClass
  /** The action that the permission service decides on, of the feature's `policy.ts`. Public operations have none. */
  action?: Action
  /**
   * Also served to the valid token of a closed account (`actor.isClosed`), which other operations refuse. The handler refuses
   * what does not concern the closing. Such a request is stored under no Idempotency-Key: nothing is stored about the person
   * any more.
   */
  closedToo?: true
}

/** Raw replies in the document: the content types of a success, each status with its meaning, headers by status. */
export interface RawAnswers {
  contentTypes: string[]
  statuses: Record<number, string>
  headers?: Record<number, Record<string, { description: string; schema: { type: 'string' } }>>
}

/** One HTTP operation as data, the only source for Express, OpenAPI, the docs and the tests. */
export interface Route extends Common {
  public: boolean
  params?: z.ZodObject
  query?: z.ZodObject
  bodyKind?: BodyKind
  /** Of a body of kind `text`. */
  textType?: TextType
  /** json: the document. text: what the handler finds in it. multipart: its text fields. */
  body?: z.ZodType
  status: 200 | 201 | 202 | 204 | 302
  /** The `data` of the envelope; undefined for 204 and raw replies. */
  response?: z.ZodType
  /** Set for raw replies: content types for the document. */
  raw?: RawAnswers
  /** True for an operation on the internal port. */
  isInternal?: boolean
  /** True for an answer of server-sent events, which stays open. */
  isStream?: boolean
  /** Pages that persons open: what a browser, which prefers text/html, shows instead of the envelope of a problem. */
  problemPage?(problem: Problem): RawReply
  /** True for responses without the envelope (JWKS, openapi.json, album status). */
  unwrapped?: boolean
  examples?: { request?: unknown; response?: unknown }
  /** For a response with a credential: see `completed`. */
  completion?: { of: z.ZodType; complete(data: unknown): Promise<unknown> }
  /** For a response with links that expire: see `renewed`. */
  renewal?(stored: unknown): unknown
  /**
   * Public operations that show more to a caller with a token: a request without one is served, and one whose token is
   * refused is refused, so that its client refreshes the token instead of showing less.
   */
  identifies?: true
  /** The account, or another thing, that the request names, for a class of limits that counts by account. */
  account?(body: unknown, params: unknown): string
  /**
   * Operations in an organization: throws Denied for a caller who may not, or no longer, act in it. Asked before a body
   * is read and before a stored response is replayed; if the path names the organization, it needs no body.
   */
  readmit?(input: AuthedInput<unknown, unknown, unknown>): Promise<void>
  handle(input: AuthedInput<unknown, unknown, unknown>): Promise<Reply<unknown> | RawReply | Opening>
}

/**
 * Whether responses have an entity tag, and 304 for a client with the current one: every GET of a signed-in caller that
 * ends.
 */
export const isTagged = (route: Pick<Route, 'method' | 'public' | 'isStream'>) =>
  route.method === 'get' && !route.public && !route.isStream

/** Whether a repeat under an Idempotency-Key gets the first response: every POST of a signed-in caller that changes something. */
export const takesIdempotencyKey = (route: Pick<Route, 'method' | 'public' | 'isInternal' | 'isQuery'>) =>
  route.method === 'post' && !route.public && !route.isInternal && !route.isQuery

export type Out<T extends z.ZodType | undefined> = T extends z.ZodType ? z.output<T> : Record<never, never>
export type Body<K extends BodyKind | undefined, B extends z.ZodType | undefined> = K extends 'multipart'
  ? MultipartBody
  : K extends 'bytes'
    ? BytesBody
    : Out<B>

export interface Spec<
  P extends z.ZodObject | undefined,
  Q extends z.ZodObject | undefined,
  B extends z.ZodType | undefined,
  K extends BodyKind | undefined,
  R extends z.ZodType | undefined,
> extends Common {
  action: Action
  params?: P
  query?: Q
  bodyKind?: K
  body?: B
  status: 200 | 201 | 202 | 204
  response?: R
  unwrapped?: boolean
  examples?: { request?: unknown; response?: unknown }
  handle(input: AuthedInput<Out<P>, Out<Q>, Body<K, B>>): Promise<R extends z.ZodType ? Reply<z.input<R>> : Reply<null>>
}

/** An operation with a bearer token and the envelope. For those in an organization see `inOrganization`. */
export function route<
  P extends z.ZodObject | undefined = undefined,
  Q extends z.ZodObject | undefined = undefined,
  B extends z.ZodType | undefined = undefined,
  K extends BodyKind | undefined = undefined,
  R extends z.ZodType | undefined = undefined,
>(spec: Spec<P, Q, B, K, R>): Route {
  return { ...(spec as unknown as Route), public: false }
}

/** An operation for services of the cluster: on the internal port, with the token of a service account. */
export const internal = (made: Route): Route => ({ ...made, isInternal: true })

type PublicSpec<
  P extends z.ZodObject | undefined,
  Q extends z.ZodObject | undefined,
  B extends z.ZodType | undefined,
  R extends z.ZodType | undefined,
> = Omit<Spec<P, Q, B, undefined, R>, 'handle' | 'bodyKind' | 'action'> & {
  identifies?: true
  account?(body: Out<B>, params: Out<P>): string
  handle(input: Input<Out<P>, Out<Q>, Out<B>>): Promise<R extends z.ZodType ? Reply<z.input<R>> : Reply<null>>
}

/** The same without a token. */
export function publicRoute<
  P extends z.ZodObject | undefined = undefined,
  Q extends z.ZodObject | undefined = undefined,
  B extends z.ZodType | undefined = undefined,
  R extends z.ZodType | undefined = undefined,
>(spec: PublicSpec<P, Q, B, R>): Route {
  return { ...(spec as unknown as Route), public: true }
}

type SignedSpec<R extends z.ZodType> = Common & {
  textType: TextType
  body: z.ZodType
  status: 200
  response: R
  examples?: { request?: unknown; response?: unknown }
  handle(input: Input<Record<never, never>, Record<never, never>, string>): Promise<Reply<z.input<R>>>
}

/** An operation for another server, whose signature takes the place of a token: the handler gets the text and checks it. */
export const signedRoute = <R extends z.ZodType>(spec: SignedSpec<R>): Route => ({
  ...(spec as unknown as Route),
  public: true,
  bodyKind: 'text',
})

type RawSpec<P extends z.ZodObject | undefined, Q extends z.ZodObject | undefined> = Common & {
  params?: P
  query?: Q
  raw: RawAnswers
  /** Of the success; 200 by default. */
  status?: 200 | 302
  problemPage?(problem: Problem): RawReply
  account?(body: unknown, params: Out<P>): string
  handle(input: Input<Out<P>, Out<Q>, Record<never, never>>): Promise<RawReply>
}

/** A public operation that makes the bytes of its response itself: delivery, documents, pages. */
export function rawRoute<P extends z.ZodObject | undefined = undefined, Q extends z.ZodObject | undefined = undefined>(
  spec: RawSpec<P, Q>,
): Route {
  return { status: 200, ...(spec as unknown as Partial<Route>), public: true } as Route
}

type StreamSpec<Q extends z.ZodObject | undefined> = Omit<Common, 'method'> & {
  action: Action
  query?: Q
  /** Describes the events. */
  events: string
  handle(input: AuthedInput<Record<never, never>, Out<Q>, Record<never, never>>): Promise<Opening>
}

/** Server-sent events for a signed-in caller. The handler runs before the head is sent: what it throws is answered. */
export function eventStream<Q extends z.ZodObject | undefined = undefined>({ events, ...spec }: StreamSpec<Q>): Route {
  const raw = { contentTypes: ['text/event-stream'], statuses: { 200: events } }
  return { ...(spec as unknown as Route), method: 'get', public: false, status: 200, raw, isStream: true }
}

/**
 * Adds a credential to what an operation makes. Only `of`, the data of the handler, is stored under an Idempotency-Key;
 * `complete` makes the response of it, for the first request and again for each repeat.
 */
export const completed = <S extends z.ZodType, R extends z.ZodType>(
  made: Route,
  o: { of: S; response: R; complete(data: z.output<S>): Promise<z.input<R>> },
): Route => ({
  ...made,
  response: o.response,
  completion: { of: o.of, complete: (data) => o.complete(o.of.parse(data)) },
})

/** A repeat under an Idempotency-Key gets what `renew` makes of the stored response, whose links may not work any more. */
export const renewed = <D>(made: Route, renew: (stored: D) => D): Route => ({
  ...made,
  renewal: (stored) => renew(stored as D),
})
