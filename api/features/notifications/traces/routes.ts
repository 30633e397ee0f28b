import * as z from 'zod'
import type { Problem } from '../../../../lib/contract/problem.ts'
import type { ApiDeps } from '../../../deps.ts'
import { type Route, rawRoute } from '../../../http/route.ts'
import type { Context } from '../../../requests/context.ts'
import { found } from '../../../requests/found.ts'
import { landingOf } from '../../invitations/landing/page.ts'
import { findSeen, recordSeen } from './record.ts'
import type { Seen } from './source.ts'

const tags = ['Notifications']
const params = z.object({ notification: z.string().max(64) })
/** One transparent pixel. */
const PIXEL = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64')

/** What mails lead to. Recording is never a reason to fail: the guest wants the picture, or the page. */
export function traceRoutes({ db, config }: ApiDeps): Route[] {
  const { PUBLIC_URL, APP_URL = PUBLIC_URL } = config
  // Never awaited: another transaction may hold the invitation, and the time of the answer must not tell of a notification.
  const record = async (
    finding: ReturnType<typeof findSeen>,
    { context, ...seen }: Pick<Seen, 'what' | 'method'> & { context: Context },
  ) => {
    try {
      const told = await finding
      if (told) await recordSeen(db, told, { ...seen, context })
    } catch (error) {
      context.log.error({ err: error, what: seen.what }, 'an open or a click was not recorded')
    }
  }
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
        void record(findSeen(db, params.notification), { what: 'open', method, context })
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
        void record(told, { what: 'click', method, context })
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
