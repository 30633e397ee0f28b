import * as z from 'zod'
import { invalid } from '../../../lib/contract/problem.ts'
import type { ApiDeps } from '../../deps.ts'
import { completed, publicRoute, type Route, route } from '../../http/route.ts'
import { permitCaller } from '../../permissions/permit.ts'
import { followToken } from '../../personal/ledger-name.ts'
import { exampleId, pathId } from '../../requests/schemas.ts'
import { findOwnErasure, requestErasure, showErasure } from './commands.ts'
import {
  Erasure,
  erasureExample,
  FollowToken,
  NewErasureBody,
  StartedErasure,
  StoredErasure,
  startedExample,
  toErasure,
  toStored,
} from './erasure.ts'
import { erasureActions } from './policy.ts'

const tags = ['Erasure']

export function erasureRoutes({ db, config, refusals, recheckSignIns }: ApiDeps): Route[] {
  const deps = () => ({ db, key: config.ERASURE_KEY })
  const start = route({
    method: 'post',
    path: '/gdpr/anonymize',
    operationId: 'anonymizeUser',
    tags,
    limit: 'anonymize',
    summary: 'Erase an account with everything the person has left',
    description:
      'The caller’s own account, or another one by a platform administrator (`ROLE_ADMIN`; other callers get 404). It cannot be undone. From the answer on no one can sign in with the account, and its tokens, sessions and event streams have ended; media items, comments, reactions, invitations and notifications are erased in the background. docs/privacy.md says what goes and what stays. The last owner of an organization with other members has to make another member an owner first: `CONFLICT` names the organizations. A repeat returns the same erasure: after an answer that was lost, the account itself can repeat the request until its access token expires.',
    action: erasureActions.eraseOwn,
    closedToo: true,
    problems: ['NOT_FOUND', 'CONFLICT'],
    body: NewErasureBody,
    status: 201,
    response: StoredErasure,
    alsoStatus: { 200: 'The erasure was requested before' },
    examples: { request: { user_id: exampleId('user'), confirm: true }, response: startedExample },
    async handle({ actor, context, body }) {
      // A client that leaves an unset id out, or sends null for it, must not erase the administrator who asks.
      if (!body.user_id && actor.platformAdmin && !actor.isClosed)
        throw invalid([{ field: 'body.user_id', issue: 'is required of a platform administrator' }])
      const userId = body.user_id ?? actor.userId
      if (actor.isClosed) return { data: toStored(await findOwnErasure(db, actor.userId, userId)), status: 200 }
      if (userId !== actor.userId) await permitCaller(erasureActions.eraseOther, { actor, context }, refusals)
      const { row, isNew } = await requestErasure(deps(), { actor, context }, { userId, reason: body.reason ?? null })
      // The notification of the database may arrive after the answer.
      recheckSignIns(userId)
      return { data: toStored(row), status: isNew ? 201 : 200 }
    },
  })
  return [
    completed(start, {
      of: StoredErasure,
      response: StartedErasure,
      complete: async ({ id, ...data }) => ({
        anonymization_id: id,
        ...data,
        follow_token: followToken(config.ERASURE_KEY, id),
      }),
    }),
    publicRoute({
      method: 'get',
      path: '/gdpr/anonymize/{anonymization_id}',
      operationId: 'getAnonymization',
      tags,
      limit: 'public',
      identifies: true,
      summary: 'Show how far an erasure is, and its certificate',
      description:
        'For platform administrators (`ROLE_ADMIN`), and for who presents the `follow_token` of the request in `X-Anonymization-Token`: the account itself can sign in no more. Says nothing of the person.',
      problems: ['NOT_FOUND'],
      headers: FollowToken,
      params: z.object({ anonymization_id: pathId('anonymization') }),
      status: 200,
      response: Erasure,
      examples: { response: erasureExample },
      async handle({ params, headers, actor }) {
        const given = headers['x-anonymization-token']
        const platformAdmin = actor?.platformAdmin ?? false
        const token = typeof given === 'string' ? given : undefined
        const { row, steps } = await showErasure(deps(), params.anonymization_id, { platformAdmin, token })
        return { data: toErasure(row, steps, platformAdmin) }
      },
    }),
  ]
}
