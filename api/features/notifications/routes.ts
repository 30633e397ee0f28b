import * as z from 'zod'
import { notFound } from '../../../lib/contract/problem.ts'
import type { ApiDeps } from '../../deps.ts'
import { type Input, type Route, rawRoute, route } from '../../http/route.ts'
import { notificationActions } from './policy.ts'
import {
  ChangedPreferences,
  changePreferences,
  changeUnsubscription,
  NotificationPreferences,
  showPreferences,
} from './preferences.ts'
import { type Step, unsubscribePage } from './unsubscribe-page.ts'
import { readUnsubscribeToken } from './unsubscribe-token.ts'

const tags = ['Notifications']
const example: NotificationPreferences = {
  preferences: [
    { channel: 'email', template: 'EventInvitation.v1', enabled: true },
    { channel: 'email', template: 'Mention.v1', enabled: false },
    { channel: 'email', template: 'DownloadReady.v1', enabled: true },
    { channel: 'email', template: 'EventPurgeSoon.v1', enabled: true },
    { channel: 'push', template: 'EventInvitation.v1', enabled: true },
    { channel: 'push', template: 'Mention.v1', enabled: true },
    { channel: 'push', template: 'DownloadReady.v1', enabled: true },
    { channel: 'push', template: 'EventPurgeSoon.v1', enabled: true },
  ],
}
const raw = { contentTypes: ['text/html'], statuses: { 200: 'A page for the recipient' } }
const params = z.object({ token: z.string().max(128) })

export function notificationRoutes({ db, config }: ApiDeps): Route[] {
  const unsubscribing =
    (step: Step, change: boolean | undefined) =>
    async ({ params: { token }, headers }: Input<{ token: string }, unknown, unknown>) => {
      const wanted = readUnsubscribeToken(config.LINK_KEYS, token)
      if (!wanted) throw notFound()
      if (change !== undefined) await changeUnsubscription(db, wanted, change)
      const path = `${config.BASE_PATH}/u/${token}`
      return unsubscribePage(step, wanted, { path, acceptLanguage: headers['accept-language'] })
    }
  return [
    route({
      method: 'get',
      path: '/api/users/me/notification-preferences',
      operationId: 'getNotificationPreferences',
      tags,
      summary: 'Show which notifications the caller gets',
      description: 'Of each channel and template. What the caller has not chosen is enabled.',
      action: notificationActions.readPreferences,
      status: 200,
      response: NotificationPreferences,
      examples: { response: example },
      handle: async ({ actor }) => ({ data: await showPreferences(db, actor.userId) }),
    }),
    route({
      method: 'put',
      path: '/api/users/me/notification-preferences',
      operationId: 'putNotificationPreferences',
      tags,
      summary: 'Choose which notifications the caller gets',
      description:
        'Changes the preferences that the body names; the others stay. Enabling e-mail of a template also takes back an unsubscription of the caller’s address.',
      action: notificationActions.savePreferences,
      body: ChangedPreferences,
      status: 200,
      response: NotificationPreferences,
      examples: {
        request: { preferences: [{ channel: 'email', template: 'Mention.v1', enabled: false }] },
        response: example,
      },
      handle: async ({ actor, body }) => ({ data: await changePreferences(db, actor.userId, body.preferences) }),
    }),
    rawRoute({
      method: 'get',
      path: '/u/{token}',
      operationId: 'getUnsubscribePage',
      tags,
      limit: 'public',
      summary: 'Show the page of an unsubscribe link',
      description: 'At the address in the `List-Unsubscribe` header of an e-mail. Changes nothing.',
      problems: ['NOT_FOUND'],
      params,
      raw,
      handle: unsubscribing('asks', undefined),
    }),
    rawRoute({
      method: 'post',
      path: '/u/{token}',
      operationId: 'unsubscribe',
      tags,
      limit: 'public',
      summary: 'End e-mails of one kind',
      description:
        'For the recipient of the e-mail, a user or any other address. One-click as in RFC 8058: needs no login, and ignores the body.',
      problems: ['NOT_FOUND'],
      params,
      raw,
      handle: unsubscribing('stopped', false),
    }),
    rawRoute({
      method: 'post',
      path: '/u/{token}/undo',
      operationId: 'undoUnsubscribe',
      tags,
      limit: 'public',
      summary: 'Take back an unsubscription',
      description: 'For the page after an unsubscription. The recipient gets e-mails of that kind again.',
      problems: ['NOT_FOUND'],
      params,
      raw,
      handle: unsubscribing('resumed', true),
    }),
  ]
}
