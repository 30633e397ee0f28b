import { setTimeout as sleep } from 'node:timers/promises'
import * as z from 'zod'
import { sessionActions } from '../../api/auth/policy.ts'
import type { Database } from '../../api/db/db.ts'
import { sql } from '../../api/db/orm.ts'
import { type Route, route } from '../../api/http/route.ts'
import { newUuid } from '../../lib/contract/ids.ts'
import { Problem, type ProblemCode } from '../../lib/contract/problem.ts'

/** Operations with an effect that can be counted: a row in `effects`. `hold` is waited for by who asks with `wait=hold`. */
export function idempotentRoutes(db: Database, hold: () => Promise<void> = async () => {}): Route[] {
  const common = {
    tags: ['Test'],
    summary: 'For tests',
    operationId: 'test',
    method: 'post' as const,
    action: sessionActions.endAll,
  }
  const Effect = z.object({ id: z.string(), title: z.string() })
  return [
    route({
      ...common,
      path: '/effects/{group}',
      params: z.object({ group: z.string() }),
      query: z.object({ wait: z.string().optional() }),
      body: z.object({ title: z.string(), when: z.unknown().optional() }),
      status: 201,
      response: Effect,
      async handle({ body, context, query }) {
        if (query.wait === 'hold') await hold()
        else if (query.wait) await sleep(Number(query.wait))
        const made = { id: newUuid(), title: body.title }
        await db.inTransaction({}, async (tx) => {
          await tx.execute(sql`insert into effects (id, title) values (${made.id}, ${made.title})`)
          await context.remember(tx, 201, { ...made, secret: 'not declared' })
        })
        return { data: made }
      },
    }),
    route({
      ...common,
      path: '/forgetful',
      body: z.object({ title: z.string() }),
      status: 200,
      response: Effect,
      async handle({ body }) {
        const made = { id: newUuid(), title: body.title }
        await db.inTransaction({}, (tx) => tx.execute(sql`insert into effects values (${made.id}, ${made.title})`))
        return { data: made, status: 201 }
      },
    }),
    route({
      ...common,
      path: '/refuse/{code}',
      problems: ['CONFLICT', 'UNSUPPORTED_MEDIA'],
      params: z.object({ code: z.string() }),
      query: z.object({ retry: z.string().optional() }),
      status: 200,
      async handle({ params, query }) {
        await db.inTransaction({}, (tx) => tx.execute(sql`insert into effects values (${newUuid()}, 'refused')`))
        if (params.code === 'BUG') throw new Error('a bug')
        const retry = query.retry ? { retryAfter: 1 } : {}
        throw new Problem(params.code as ProblemCode, 'no', { details: [{ field: 'body', issue: 'no' }], ...retry })
      },
    }),
    route({
      ...common,
      path: '/forms',
      problems: ['CONFLICT'],
      bodyKind: 'multipart',
      body: z.object({ title: z.string().optional() }),
      status: 201,
      response: z.object({ id: z.string(), size: z.number() }),
      async handle({ body, context }) {
        let size = 0
        for await (const chunk of body.file.stream as AsyncIterable<Buffer>) {
          size += chunk.length
          if (chunk.toString().startsWith('refuse')) throw new Problem('UNSUPPORTED_CONTENT_TYPE', 'no')
        }
        const fields = await body.finished()
        if (fields['title'] === 'refuse') throw new Problem('CONFLICT', 'no')
        const made = { id: newUuid(), size }
        await db.inTransaction({}, async (tx) => {
          await tx.execute(sql`insert into effects values (${made.id}, 'form')`)
          await context.remember(tx, 201, made)
        })
        return { data: made }
      },
    }),
    route({
      ...common,
      path: '/empty',
      status: 204,
      async handle() {
        await db.inTransaction({}, (tx) => tx.execute(sql`insert into effects values (${newUuid()}, 'empty')`))
        return { data: null }
      },
    }),
  ]
}
