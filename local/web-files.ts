import { createHash } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { extname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

const resolve = (name: string) => fileURLToPath(import.meta.resolve(name))
const WEB = join(import.meta.dirname, '../web')
const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}
/** Everything below `web/` that a browser can use, by its path there. Pages have addresses of their own. */
const OWN = readdirSync(WEB, { recursive: true, encoding: 'utf8' })
  .filter((name) => Object.hasOwn(TYPES, extname(name)) && extname(name) !== '.html')
  .map((name) => [`/${name.split(sep).join('/')}`, join(WEB, name)])
const FILES = new Map<string, string>([
  ...(OWN as [string, string][]),
  ['/', join(WEB, 'index.html')],
  ['/vendor/preact.js', resolve('preact')],
  ['/vendor/preact-hooks.js', resolve('preact/hooks')],
  ['/vendor/htm.js', resolve('htm')],
  ['/vendor/thumbhash.js', resolve('thumbhash')],
  ['/vendor/hls.js', resolve('hls.js/dist/hls.min.mjs')],
  ['/vendor/hls.worker.js', resolve('hls.js/dist/hls.worker.js')],
])
/** The landing page of every invitation link, `/i/{slug}`. It asks the API about the slug. */
const INVITATION = join(WEB, 'invitations/landing.html')

/** The file at a path of the page's origin. Only what was found at the start is served: a path is never made into a name. */
export const webFile = (path: string): string | undefined => (/^\/i\/[^/]+$/.test(path) ? INVITATION : FILES.get(path))

/** The bytes and the headers of a file. The import map of a page is the only script that may stand in its markup. */
export async function readWebFile(file: string): Promise<{ bytes: Buffer; headers: Record<string, string> }> {
  const bytes = await readFile(file)
  const [, map] =
    /<script type="importmap">([\s\S]*?)<\/script>/.exec(file.endsWith('.html') ? String(bytes) : '') ?? []
  const hash = map === undefined ? undefined : createHash('sha256').update(map).digest('base64')
  return {
    bytes,
    headers: { ...webSafety(hash), 'Content-Type': TYPES[extname(file)] ?? '', 'Content-Length': String(bytes.length) },
  }
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
