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

/** The file at a path of the page's origin. Only what was found at the start is served: a path is never made into a name. */
export const webFile = (path: string): string | undefined => (/^\/i\/[^/]+$/.test(path) ? INVITATION : FILES.get(path))

/** The bytes and the headers of a file. */
export async function readWebFile(file: string): Promise<{ bytes: Buffer; headers: Record<string, string> }> {
  const bytes = await readFile(file)
  const hash = file.endsWith('.html') ? importMapHash(String(bytes)) : undefined
  return {
    bytes,
    headers: { ...webSafety(hash), 'Content-Type': TYPES[extname(file)] ?? '', 'Content-Length': String(bytes.length) },
  }
}
