import type * as z from 'zod'
import type { Uuid } from '../../lib/contract/ids.ts'
import { notFound, Problem } from '../../lib/contract/problem.ts'
import type { Refusals } from '../audit/refusals.ts'
import type { Database, Tx } from '../db/db.ts'
import { type OrganizationLookup, organizationOf } from '../db/organization-of.ts'
import type { ActionsOn } from '../permissions/catalog.ts'
import { Denied, openGate, recordingDenials } from '../permissions/permit.ts'
import { findMembership } from '../permissions/queries.ts'
import type { Action } from '../permissions/rule.ts'
import type { BodyKind } from '../requests/bytes.ts'
import { changesOf } from '../requests/change.ts'
import type { Context } from '../requests/context.ts'
import type { Cursors } from '../requests/cursor.ts'
import { type Page, pageOf } from '../requests/page.ts'
import { type Asked, type Read, type Steps, WithStatus, type Write } from '../requests/request.ts'
import { type AuthedInput, type Body, type Out, type Route, route, type Spec } from './route.ts'

export interface OrganizationDeps {
  db: Database
  cursors: Cursors
  refusals: Refusals
  actionsOn: ActionsOn
}

type Shape = z.ZodObject | undefined
type Maybe = z.ZodType | undefined
type Answered<R extends Maybe> = R extends z.ZodType ? Promise<z.input<R> | WithStatus<z.input<R>>> : Promise<void>
type Operation<
  A extends Action,
  P extends Shape,
  Q extends Shape,
  B extends Maybe,
  K extends BodyKind | undefined,
  R extends Maybe,
> = Omit<Spec<P, Q, B, K, R>, 'handle' | 'action'> & {
  action: A
  /** Set where the path names no organization: a row that belongs to one. */
  organization?: { of: OrganizationLookup; id(input: { params: Out<P>; body: Body<K, B> }): Uuid }
  /**
   * Of an action that admits guests: whether this caller, who is no member, is one here. Asked where only the membership of
   * a member is, before a body is read and before a stored response is replayed; the rule decides on the row.
   */
  isGuest?(tx: Tx, asked: Asked & { params: Out<P> }): Promise<boolean>
  /** Members whom the rule refuses get 403 instead of 404. */
  isOpen?: boolean
}
type Given<P extends Shape, Q extends Shape, B extends Maybe, K extends BodyKind | undefined> = {
  params: Out<P>
  query: Out<Q>
  body: Body<K, B>
  headers: AuthedInput<unknown, unknown, unknown>['headers']
}

/**
 * Operations in an organization. Each checks the membership, decides on the route's action and stores the response in
 * the transaction of the change. Non-members, missing rows and refused actions get the same 404.
 */
export function inOrganization(deps: OrganizationDeps) {
  /** One GET. With `oneRoundTrip` the handler must send all its queries before its first `await`. */
  function read<A extends Action, P extends Shape, R extends z.ZodType, Q extends Shape = undefined>(
    spec: Omit<Operation<A, P, Q, undefined, undefined, R>, 'status'> & {
      oneRoundTrip?: boolean
      handle(request: Read<A> & Given<P, Q, undefined, undefined> & { page: Page }): Promise<z.input<R>>
    },
  ): Route {
    const { handle, oneRoundTrip, organization, isOpen, isGuest, ...rest } = spec
    return operation({ ...rest, status: 200 }, spec, async (asked, input) => {
      const { org_id: _, ...of } = input.params as Record<string, unknown>
      const page = pageOf(deps.cursors, { list: spec.operationId, org: asked.orgId, of }, input.query)
      const work = (request: Read<A>) => handle({ ...request, ...given(input), page } as never)
      return reading(deps, asked, spec, work, oneRoundTrip)
    })
  }

  /** One transaction. */
  function write<
    A extends Action,
    P extends Shape,
    Q extends Shape = undefined,
    B extends Maybe = undefined,
    R extends Maybe = undefined,
  >(
    spec: Operation<A, P, Q, B, undefined, R> & {
      handle(request: Write<A> & Given<P, Q, B, undefined>): Answered<R>
    },
  ): Route {
    const { handle, organization, isOpen, isGuest, ...rest } = spec
    return operation(rest, spec, (asked, input) =>
      writing(deps, asked, spec, (request) => handle({ ...request, ...given(input) } as never), spec.status),
    )
  }

  /** Several transactions, and streamed bodies. */
  function steps<
    A extends Action,
    P extends Shape,
    Q extends Shape = undefined,
    B extends Maybe = undefined,
    K extends BodyKind | undefined = undefined,
    R extends Maybe = undefined,
  >(
    spec: Operation<A, P, Q, B, K, R> & {
      handle(request: Steps<A> & Given<P, Q, B, K>): Answered<R>
    },
  ): Route {
    const { handle, organization, isOpen, isGuest, ...rest } = spec
    return operation(rest, spec, async (asked, input) => {
      const kit: Steps<A> = {
        ...asked,
        check: () => checking(deps, asked, spec),
        read: (work) => reading(deps, asked, spec, work),
        write: (work) => writing(deps, asked, spec, work, undefined),
        answer: (work) => writing(deps, asked, spec, work, spec.status),
      }
      return handle({ ...kit, ...given(input) } as never)
    })
  }

  /** Finds the organization, runs the work in it, and records denials. */
  function operation(
    rest: object,
    spec: Pick<
      Operation<Action, Shape, Shape, Maybe, BodyKind | undefined, Maybe>,
      'action' | 'organization' | 'operationId' | 'params' | 'isOpen' | 'isGuest'
    >,
    work: (asked: Asked, input: AuthedInput<unknown, unknown, unknown>) => Promise<unknown>,
  ): Route {
    const { action, organization, operationId, params } = spec
    if (!organization && !params?.shape['org_id']) throw new Error(`${operationId} names no organization`)
    const inside = async <T>(input: AuthedInput<unknown, unknown, unknown>, act: (asked: Asked) => Promise<T>) => {
      const { actor, context } = input
      const named = (input.params as { org_id?: Uuid }).org_id
      const orgId = organization
        ? await organizationOf(deps.db, organization.of, organization.id(input as never))
        : named
      if (orgId === undefined) throw notFound()
      const asked = { actor, orgId, context }
      return recordingDenials({ ...asked, refusals: deps.refusals }, () => act(asked))
    }
    const made = route({
      ...(rest as Spec<undefined, undefined, undefined, undefined, undefined>),
      action,
      async handle(input) {
        const data = await inside(input, (asked) => work(asked, input))
        return data instanceof WithStatus
          ? { data: data.data as null, status: data.status }
          : { data: (data ?? null) as null }
      },
    })
    return { ...made, readmit: (input) => inside(input, (asked) => readmitting(deps, asked, spec, input)) }
  }

  return { read, write, steps }
}

const given = ({ params, query, body, headers }: AuthedInput<unknown, unknown, unknown>) => ({
  params,
  query,
  body,
  headers,
})

type Deps = Pick<OrganizationDeps, 'db' | 'actionsOn'>

interface Deciding<A extends Action> {
  action: A
  isOpen?: boolean
}

/** The membership query and the handler's first queries leave together; the result for a non-member is discarded. */
function reading<A extends Action, T>(
  { db, actionsOn }: Deps,
  asked: Asked,
  spec: Deciding<A>,
  work: (read: Read<A>) => Promise<T>,
  oneRoundTrip = false,
): Promise<T> {
  const gate = openGate<A>({ ...spec, ...asked, actionsOn })
  const inside = async (tx: Tx) => {
    const member = findMembership(tx, asked.orgId, asked.actor.userId).then(gate.admit)
    const answer = work({ ...asked, ...gate, tx, member }).catch(async (error: unknown) => {
      throw (await member) === undefined ? refusalFor(spec.action, error) : error
    })
    // If both fail, the membership's error counts, whichever came first.
    answer.catch(() => {})
    await member
    return answer
  }
  const scope = { org: asked.orgId }
  return oneRoundTrip ? db.readAtOnce(scope, inside) : db.read(scope, inside)
}

/** For a caller who is no member, what is not there is refused as the organization is: who tries many is in the audit log. */
function refusalFor(action: Action, error: unknown): unknown {
  if (error instanceof Denied || !(error instanceof Problem) || error.code !== 'NOT_FOUND') return error
  return new Denied(action, 'not_a_member', null, { field: error.details?.[0]?.field })
}

/** Throws Denied unless the caller is a member, and may perform the action if it needs no row. */
const checking = <A extends Action>(deps: Deps, asked: Asked, spec: Deciding<A>): Promise<void> =>
  reading(deps, asked, spec, async () => {})

/** The same, and for a caller who is no member: unless they are a guest. */
const readmitting = <A extends Action>(
  deps: Deps,
  asked: Asked,
  { isGuest, ...spec }: Deciding<A> & Pick<Operation<A, Shape, Shape, Maybe, BodyKind | undefined, Maybe>, 'isGuest'>,
  { params }: { params: unknown },
): Promise<void> =>
  reading(deps, asked, spec, async ({ tx, member }) => {
    if ((await member) || !isGuest) return
    if (!(await isGuest(tx, { ...asked, params: params as never }))) throw new Denied(spec.action, 'not_a_member', null)
  })

async function writing<A extends Action, T>(
  { db, actionsOn }: Deps,
  asked: Asked,
  spec: Deciding<A>,
  work: (write: Write<A>) => Promise<T>,
  /** Status of the response to store; undefined when the result is not the response. */
  status: number | undefined,
): Promise<T> {
  const gate = openGate<A>({ ...spec, ...asked, actionsOn })
  return db.inTransaction({ org: asked.orgId }, async (tx) => {
    const member = gate.admit(await findMembership(tx, asked.orgId, asked.actor.userId))
    const changes = changesOf(tx, { orgId: asked.orgId, actorId: asked.actor.userId, context: asked.context })
    const data = await work({ ...asked, ...gate, ...changes, member })
    if (status !== undefined) await remember(asked.context, tx, status, data)
    return data
  })
}

const remember = (context: Context, tx: Tx, status: number, data: unknown) =>
  data instanceof WithStatus ? context.remember(tx, data.status, data.data) : context.remember(tx, status, data ?? null)
