import { createHash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { extname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** The page's files, in the repository and in the image. */
export const WEB = join(import.meta.dirname, '../../web')
export const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Everything below `web/` that a browser can use, by its path there. Pages have addresses of their own. */
export const ownFiles = (): [string, string][] =>
  readdirSync(WEB, { recursive: true, encoding: 'utf8' })
    .filter((name) => Object.hasOwn(TYPES, extname(name)) && extname(name) !== '.html')
    .map((name) => [`/${name.split(sep).join('/')}`, join(WEB, name)])

/** A library as the page loads it: the image has a copy beside the page's own files, and not the package. */
export function vendored(name: string, specifier: string): [string, string] {
  const copy = join(WEB, 'vendor', name)
  return [`/vendor/${name}`, existsSync(copy) ? copy : fileURLToPath(import.meta.resolve(specifier))]
}
export const viewLibrary = (): [string, string][] => [
  vendored('preact.js', 'preact'),
  vendored('preact-hooks.js', 'preact/hooks'),
  vendored('htm.js', 'htm'),
]

/** The import map of a page is the only script that may stand in its markup. */
export function importMapHash(html: string): string | undefined {
  const [, map] = /<script type="importmap">([\s\S]*?)<\/script>/.exec(html) ?? []
  return map === undefined ? undefined : createHash('sha256').update(map).digest('base64')
}

export const webSafety = (scriptHash?: string): Record<string, string> => ({
  'Content-Security-Policy':
    `default-src 'none'; script-src 'self'${scriptHash === undefined ? '' : ` 'sha256-${scriptHash}'`}; style-src 'self'; ` +
    "img-src 'self'; connect-src 'self'; media-src 'self' blob:; worker-src 'self'; frame-src 'self'; " +
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-cache',
})
