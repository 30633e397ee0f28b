import * as z from 'zod'
import type { Problem } from '../../../../lib/contract/problem.ts'
import type { ApiDeps } from '../../../deps.ts'
import { type Route, rawRoute } from '../../../http/route.ts'
import type { Context } from '../../../requests/context.ts'
import { found } from '../../../requests/found.ts'
import { landingOf } from '../../invitations/landing/page.ts'
import { findSeen, recorderOf } from './record.ts'

const tags = ['Notifications']
const params = z.object({ notification: z.string().max(64) })
/** One transparent pixel. */
const PIXEL = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64')

/** Without the request, which would stay in memory as long as its record waits. */
const originOf = ({ requestId, clientRequestId, ip, userAgent, personalData }: Context) => ({
  personalData,
  requestId,
  clientRequestId,
  ip,
  userAgent,
})

/** What mails lead to. Recording is never a reason to fail: the guest wants the picture, or the page. */
export function traceRoutes({ db, log, config }: ApiDeps): Route[] {
  const { PUBLIC_URL, APP_URL = PUBLIC_URL } = config
  // Never awaited: another transaction may hold the invitation, and the time of the answer must not tell of a notification.
  const record = recorderOf({ db, log })
  let pages: ReturnType<typeof landingOf> | undefined
  // Made at the first request: the document is made of routes without a configuration.
  const problemPage = (problem: Problem) => {
    pages ??= landingOf(config, '../../i/web/')
    return pages.refused(problem)
  }
  return [
    rawRoute({
      method: 'get',
      path: '/e/o/{notification}',
      operationId: 'recordOpen',
      tags,
      limit: 'delivery',
      summary: 'Note that a mail was opened',
      description:
        'A picture of one pixel, in the mail of an invitation; the same for any id. Recorded with the likely source: a person, a proxy or a scanner. Uses up no link.',
      params,
      raw: { contentTypes: ['image/gif'], statuses: { 200: 'The picture' } },
      async handle({ params, context, method }) {
        void record(params.notification, { what: 'open', method, context: originOf(context) })
        return { status: 200, headers: { 'Content-Type': 'image/gif', 'Cache-Control': 'no-store' }, body: PIXEL }
      },
    }),
    rawRoute({
      method: 'get',
      path: '/e/c/{notification}',
      operationId: 'followInvitationLink',
      tags,
      limit: 'delivery',
      summary: 'Lead from a mail to its invitation',
      description:
        'Redirects to the landing page of the invitation, never anywhere else. The token is in the fragment of the link, which the browser keeps and sends to no server: it is not used up. Recorded with the likely source; HEAD counts as a scanner. A client that prefers `text/html` gets problems as pages.',
      problems: ['NOT_FOUND'],
      problemPage,
      params,
      status: 302,
      raw: {
        contentTypes: ['text/plain'],
        statuses: { 302: 'To the landing page' },
        headers: { 302: { Location: { description: 'The landing page', schema: { type: 'string' } } } },
      },
      async handle({ params, context, method }) {
        const told = findSeen(db, params.notification)
        void record(params.notification, { what: 'click', method, context: originOf(context) }, told)
        const { slug } = found(await told)
        const headers = {
          Location: `${APP_URL}/i/${slug}`,
          'Content-Type': 'text/plain; charset=utf-8',
          'Cache-Control': 'no-store',
          'Referrer-Policy': 'no-referrer',
        }
        return { status: 302, headers, body: 'The invitation is elsewhere.\n' }
      },
    }),
  ]
}
