import { createHash } from 'node:crypto'
import { statSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { importMapHash, ownFiles, TYPES, vendored, viewLibrary, WEB, webSafety } from '../lib/runtime/web-files.ts'

export { webSafety }

const FILES = new Map<string, string>([
  ...ownFiles(),
  ['/', join(WEB, 'index.html')],
  ...viewLibrary(),
  vendored('thumbhash.js', 'thumbhash'),
  vendored('hls.js', 'hls.js/dist/hls.min.mjs'),
  vendored('hls.worker.js', 'hls.js/dist/hls.worker.js'),
])
/** The landing page of every invitation link, `/i/{slug}`. It asks the API about the slug. */
const INVITATION = join(WEB, 'invitations/landing.html')

export interface WebFile {
  file: string
  /** That of the address, which is the version of all files when their page was read. */
  version?: string | undefined
}

/**
 * The file at a path of the page's origin. Only what was found at the start is served: a path is never made into a name.
 * Pages name their files below `/web/{version}/`, where browsers may keep them.
 */
export function webFile(path: string): WebFile | undefined {
  const [, version, rest] = /^\/web\/([\w-]+)(\/.+)$/.exec(path) ?? []
  const file = /^\/i\/[^/]+$/.test(path) ? INVITATION : FILES.get(rest ?? path)
  return file === undefined ? undefined : { file, version }
}

/** Of the page that was read last. */
let latest: string | undefined

/** The bytes and the headers of a file. */
export async function readWebFile({ file, version }: WebFile) {
  if (extname(file) !== '.html') return part(file, await readFile(file), version !== undefined && version === latest)
  latest = versionOf(FILES.values())
  return page(await readFile(file, 'utf8'), latest)
}

/** Names its files so that a reload asks for none of them again, and for all of them after a change of one. */
function page(html: string, version: string) {
  const bytes = Buffer.from(html.replace(/((?:src|href)=|: )"\/(?=[^"/][^"]*\.\w+")/g, `$1"/web/${version}/`))
  return withHeaders('.html', bytes, webSafety(importMapHash(String(bytes))))
}

function part(file: string, bytes: Buffer, isLatest: boolean) {
  // A page that was read before a change asks for another version: what it gets now is not to be kept as that.
  const kept = isLatest ? { 'Cache-Control': 'max-age=31536000, immutable' } : undefined
  return withHeaders(extname(file), bytes, { ...webSafety(), ...kept })
}

const withHeaders = (type: string, bytes: Buffer, headers: Record<string, string>) => ({
  bytes,
  headers: { ...headers, 'Content-Type': TYPES[type] ?? '', 'Content-Length': String(bytes.length) },
})

/** Of all files together: another one as soon as one of them is written. */
export function versionOf(files: Iterable<string>): string {
  const hash = createHash('sha256')
  for (const file of files) {
    // One that is missing for a moment, as while another branch is checked out, is missing for its own request alone.
    const found = statSync(file, { bigint: true, throwIfNoEntry: false })
    hash.update(`${file}\0${found?.mtimeNs} ${found?.size} ${found?.ino}\0`)
  }
  return hash.digest('base64url').slice(0, 16)
}
