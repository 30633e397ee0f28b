import { readFile } from 'node:fs/promises'
import { extname } from 'node:path'
import * as z from 'zod'
import { notFound } from '../../../../lib/contract/problem.ts'
import { ownFiles, TYPES, viewLibrary, webSafety } from '../../../../lib/runtime/web-files.ts'
import type { ApiDeps } from '../../../deps.ts'
import { type Route, rawRoute } from '../../../http/route.ts'
import { findShown } from '../show.ts'
import { parseSlug } from '../slug.ts'
import { landingOf } from './page.ts'

const tags = ['Invitations']

/** The page that an invitation's link leads to, where no app of its own has that address. */
export function landingRoutes({ db, config }: ApiDeps): Route[] {
  const once = <T>(make: () => T) => {
    let made: T | undefined
    return () => (made ??= make())
  }
  // Not before the first request: the document is made of routes without a configuration.
  const pages = once(() => landingOf(config))
  const files = once(() => new Map([...ownFiles(), ...viewLibrary()]))
  return [
    rawRoute({
      method: 'get',
      path: '/i/{slug}',
      operationId: 'getLandingPage',
      tags,
      limit: 'slug',
      account: (_, { slug }) => slug,
      summary: 'Show the landing page of an invitation',
      description:
        'At the address of an invitation link, `{PUBLIC_URL}/i/{slug}`. Redirects to the app where the configuration names one. A client that prefers `text/html` gets problems as pages.',
      params: z.object({ slug: z.string().max(64).meta({ example: 'K7M2QX9A' }) }),
      raw: {
        contentTypes: ['text/html'],
        statuses: { 200: 'The page', 302: 'To the same path of the app', 404: 'A page that says so' },
        headers: { 302: { Location: { description: 'The same path of the app', schema: { type: 'string' } } } },
      },
      problemPage: (problem) => pages().refused(problem),
      async handle({ params }) {
        const { PUBLIC_URL, APP_URL = PUBLIC_URL } = config
        const slug = parseSlug(params.slug)
        // The browser keeps the fragment, and with it the token.
        if (APP_URL !== PUBLIC_URL && slug) {
          return { status: 302, headers: { Location: `${APP_URL}/i/${slug}`, 'Cache-Control': 'no-store' } }
        }
        const found = slug && (await findShown(db, slug, null))
        return found ? pages().shown(found) : pages().missing()
      },
    }),
    rawRoute({
      method: 'get',
      path: '/i/web/{+file}',
      operationId: 'getLandingFile',
      tags,
      limit: 'delivery',
      summary: 'Fetch a file of the landing page',
      description: 'Its scripts, styles and pictures. No other path of the server is among them.',
      problems: ['NOT_FOUND'],
      params: z.object({ file: z.string().max(128) }),
      raw: { contentTypes: ['text/javascript', 'text/css', 'image/svg+xml'], statuses: { 200: 'The file' } },
      async handle({ params }) {
        const name = files().get(`/${params.file}`)
        if (name === undefined) throw notFound()
        const headers = {
          ...webSafety(),
          'Cache-Control': 'public, max-age=600',
          'Content-Type': TYPES[extname(name)] ?? '',
        }
        return { status: 200, headers, body: await readFile(name) }
      },
    }),
  ]
}
