import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Problem } from '../../../../lib/contract/problem.ts'
import { importMapHash, WEB, webSafety } from '../../../../lib/runtime/web-files.ts'
import type { RawReply } from '../../../requests/bytes.ts'

export interface LandingSettings {
  /** Where the page finds the API. */
  basePath: string
  /** Whether the page may ask for an e-mail address and a password. */
  canSignIn: boolean
  joinOnAccept: boolean
  stores: readonly { name: string; url: string }[]
  /** Where the pages find their files. */
  files?: string
}

interface LandingConfig {
  BASE_PATH: string
  JOIN_ORG_ON_ACCEPT: boolean
  AUTH_PROXY_ENABLED: boolean
  AUTH_TOKEN_URL?: string | undefined
  AUTH_CLIENT_ID?: string | undefined
  AUTH_CLIENT_SECRET?: string | undefined
  APP_STORE_URL?: string | undefined
  PLAY_STORE_URL?: string | undefined
}

/** The pages as this installation shows them. */
export const landingOf = (config: LandingConfig, files?: string) =>
  landingPages({
    basePath: config.BASE_PATH,
    canSignIn: Boolean(
      config.AUTH_PROXY_ENABLED && config.AUTH_TOKEN_URL && config.AUTH_CLIENT_ID && config.AUTH_CLIENT_SECRET,
    ),
    joinOnAccept: config.JOIN_ORG_ON_ACCEPT,
    stores: [
      ...(config.APP_STORE_URL ? [{ name: 'Get the app for iPhone', url: config.APP_STORE_URL }] : []),
      ...(config.PLAY_STORE_URL ? [{ name: 'Get the app for Android', url: config.PLAY_STORE_URL }] : []),
    ],
    ...(files !== undefined && { files }),
  })

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escapeHtml = (text: string) => text.replace(/[&<>"']/g, (sign) => ENTITIES[sign] ?? '')

/** The page's file with relative addresses, so that it works at the root and below the base path. */
const template = (files: string) =>
  readFileSync(join(WEB, 'invitations/landing.html'), 'utf8').replace(/((?:src|href)=|: )"\/(?!\/)/g, `$1"${files}`)

/**
 * The landing page of an invitation as markup, which a browser without JavaScript shows and a script continues: title and
 * host. What the token adds only a script can ask for, because the fragment reaches no server.
 */
export function landingPages(settings: LandingSettings) {
  const { files = './web/' } = settings
  const html = template(files)
  const headers = {
    ...webSafety(importMapHash(html)),
    'Content-Type': 'text/html; charset=utf-8',
    'Cache-Control': 'no-store',
  }
  const { basePath, canSignIn, joinOnAccept, stores } = settings
  const given = escapeHtml(JSON.stringify({ api: basePath, canSignIn, joinOnAccept, stores }))
  const links = stores
    .map(({ name, url }) => `<a class="button wide" href="${escapeHtml(url)}">${escapeHtml(name)}</a>`)
    .join('')
  const page = (title: string, from: string, more: string) =>
    html
      .replace('<main class="sign-in invited">', () => `<main class="sign-in invited" data-settings="${given}">`)
      .replace(
        '<!-- shown -->',
        () =>
          `<article class="card"><header><img class="mark" src="${files}icon.svg" alt="Keepsake" width="52" height="52"><p id="from" class="muted">${from}</p><h1 dir="auto">${escapeHtml(title)}</h1></header>${more}</article>`,
      )
  /** The page without its scripts: there is nothing to ask for, and any browser can show it. */
  const plain = (status: number, title: string, text: string): RawReply => ({
    status,
    headers,
    body: page(title, 'An invitation', `<p class="muted">${text}</p>`).replace(
      /<script (?:type="module" )?src="[^"]*\/(?:landing|too-old)\.js"[^>]*><\/script>/g,
      '',
    ),
  })
  const missing = (status = 404) =>
    plain(
      status,
      'There is no such invitation',
      'Check that you have the whole link. If you have, the event may not be open for answers yet.',
    )
  return {
    shown: ({ title, hostName }: { title: string; hostName: string | null }): RawReply => ({
      status: 200,
      headers,
      body: page(
        title,
        hostName === null ? 'You are invited to' : `<bdi>${escapeHtml(hostName)}</bdi> invites you to`,
        `<noscript><p class="muted">To see date and place, and to answer, allow JavaScript for this page${links ? ', or open the link in the app' : ''}.</p>${links}</noscript>`,
      ).replace('An invitation · Keepsake', () => `${escapeHtml(title)} · Keepsake`),
    }),
    missing: () => missing(),
    /** Of a request that was refused before the invitation was looked up, or that failed. */
    refused({ status, retryAfter = 60 }: Pick<Problem, 'status' | 'retryAfter'>): RawReply {
      if (status === 429) {
        const wait = retryAfter > 60 ? `in ${Math.ceil(retryAfter / 60)} minutes` : 'in a minute'
        return plain(status, 'Too many tries', `Your network opened too many invitations. Try again ${wait}.`)
      }
      if (status < 500) return missing(status)
      return plain(status, 'The invitation cannot be shown', 'This is temporary. Load the page again in a minute.')
    },
  }
}
