import { escapeHtml as e } from '../notifications/templates/text.ts'
import type { ExportWords } from './content.ts'

/** The pages of an archive, which a browser opens from the file system: no script, nothing from elsewhere. */

const STYLE = `:root{color-scheme:light dark;--ink:#26262e;--soft:#5d5d6b;--line:#d5d5de;--page:#fbfbfe;--link:#3346b3}
@media (prefers-color-scheme:dark){:root{--ink:#ececf1;--soft:#b3b3bf;--line:#45464f;--page:#1b1c20;--link:#a9b8ff}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:68rem;margin:0 auto;padding:1.5rem}
a{color:var(--link)}h1{font-size:1.6rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2rem 0 .5rem}p.soft,dt,figcaption{color:var(--soft)}
summary{cursor:pointer;padding:.5rem 0;font-weight:600}ul{padding-left:1.2rem}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(11rem,1fr));gap:.75rem}
figure{margin:0;content-visibility:auto;contain-intrinsic-size:11rem 10rem}
figure img,figure video{display:block;width:100%;height:8.5rem;object-fit:cover;border-radius:6px;background:var(--line)}
figcaption{font-size:.8rem;overflow-wrap:anywhere}
article{border-top:1px solid var(--line);padding:1rem 0}article h2{margin:0 0 .25rem;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.15rem 1rem;margin:0}dd{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}
nav{display:flex;gap:1rem;flex-wrap:wrap}`

// What a browser may do with a page of its own disk: show pictures and videos beside it.
const POLICY = "default-src 'none'; img-src 'self' file:; media-src 'self' file:; style-src 'unsafe-inline'"

export const pageOf = (title: string, body: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="referrer" content="no-referrer">
<title>${e(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${e(title)}</h1>
${body}
</main>
</body>
</html>
`

/** A path in the archive as an address relative to its root. */
const address = (path: string, up = '') => e(up + path.split('/').map(encodeURIComponent).join('/'))

export interface ShownFile {
  path: string
  mimeType: string
}

/** The type of the first playlist of a film. */
export const PLAYLIST = 'application/vnd.apple.mpegurl'

/** What browsers show themselves. */
const PICTURES = new Set(['image/jpeg', 'image/png', 'image/webp', 'image/gif', 'image/avif'])

function figure({ path, mimeType }: ShownFile): string {
  const name = e(path.split('/').at(-1) ?? '')
  const at = address(path)
  const caption = `<figcaption>${name}</figcaption>`
  if (PICTURES.has(mimeType))
    return `<figure><a href="${at}"><img src="${at}" alt="${name}" loading="lazy" decoding="async"></a>${caption}</figure>`
  if (mimeType.startsWith('video/'))
    return `<figure><video src="${at}" controls preload="none" aria-label="${name}"></video>${caption}</figure>`
  return `<figure><figcaption><a href="${at}">${name}</a></figcaption></figure>`
}

/** Folders in the order of their names. A closed one loads nothing. */
function folders(files: readonly ShownFile[]): string {
  const byFolder = new Map<string, ShownFile[]>()
  for (const file of files) {
    const folder = file.path.slice(0, file.path.lastIndexOf('/'))
    byFolder.set(folder, [...(byFolder.get(folder) ?? []), file])
  }
  return [...byFolder]
    .map(
      ([folder, inside]) => `<details><summary>${e(folder)} (${inside.length})</summary>
<div class="grid">${inside.map(figure).join('\n')}</div></details>`,
    )
    .join('\n')
}

export interface Index {
  words: Omit<ExportWords, 'all'>
  /** The file with the same for programs. */
  document: string
  archives: readonly { name: string; files: number }[]
  /** This one, from 1. */
  number: number
  files: readonly ShownFile[]
  /** Of part 1. */
  sections?: readonly SectionPages[]
}

export interface SectionPages {
  title: string
  records: number
  /** Paths of its pages. */
  pages: readonly string[]
}

export function indexPage({ words, document, archives, number, files, sections }: Index): string {
  const others = archives.map(({ name, files }, n) => {
    const what = `${e(name)}: ${files} ${files === 1 ? 'file' : 'files'}`
    return `<li>${n + 1 === number ? `<strong>${what}</strong> (this one)` : what}</li>`
  })
  const parts =
    archives.length === 1
      ? ''
      : `<h2>All archives</h2>
<p class="soft">${e(words.first)} Each has a page like this one, of its own files.</p>
<ul>${others.join('\n')}</ul>`
  const data = sections
    ? `<h2>${e(words.data)}</h2>
<ul>${sections.map(sectionLink).join('\n')}</ul>
<p class="soft">The same for programs: <a href="${address(document)}">${e(document)}</a></p>`
    : ''
  const media = files.length === 0 ? '' : `<h2>Photos and videos</h2>\n${folders(files)}`
  const films = files.some(({ mimeType }) => mimeType === PLAYLIST)
    ? '<p class="soft">A film is a folder. To watch it, unpack the archive, and open the playlist with a program such as VLC.</p>'
    : ''
  return pageOf(words.title, [data, media, films, parts].filter((part) => part !== '').join('\n'))
}

const sectionLink = ({ title, records, pages }: SectionPages) =>
  pages[0] === undefined
    ? `<li>${e(title)}: none</li>`
    : `<li><a href="${address(pages[0])}">${e(title)}</a> (${records})</li>`

/** One page of the records of a section, in `pages/`. */
export function recordsPage(o: {
  title: string
  /** Leads to the first page. */
  all: string
  heading: string
  records: readonly Record<string, unknown>[]
  /** From 1. */
  page: number
  before: string | undefined
  /** The name of the next page, where there is one. */
  next: string | undefined
}): string {
  const link = (path: string | undefined, text: string) =>
    path === undefined ? '' : `<a href="${address(path, '../')}">${text}</a>`
  const nav = (label: string) =>
    `<nav aria-label="${label}"><a href="../index.html">${e(o.all)}</a>${link(o.before, 'Previous page')}${link(o.next, 'Next page')}</nav>`
  const articles = o.records.map((record) => article(record, o.heading))
  return pageOf(
    o.page === 1 ? o.title : `${o.title}, page ${o.page}`,
    `${nav('Pages')}\n${articles.join('\n')}\n${nav('Pages, at the end')}`,
  )
}

function article(record: Record<string, unknown>, heading: string): string {
  const { [heading]: title, ...rest } = record
  const fields = Object.entries(rest)
    .filter(([, value]) => value !== null && !(Array.isArray(value) && value.length === 0))
    .map(([name, value]) => `<dt>${e(name.replaceAll('_', ' '))}</dt><dd>${field(name, value)}</dd>`)
  return `<article><h2>${e(textOf(title)) || '–'}</h2><dl>${fields.join('\n')}</dl></article>`
}

/** The file of a media item is beside the pages only if it is in this archive; its name is there in any case. */
const field = (name: string, value: unknown): string =>
  name === 'file' ? `<a href="${address(textOf(value), '../')}">${e(textOf(value))}</a>` : e(textOf(value))

const textOf = (value: unknown): string =>
  value === null || value === undefined
    ? ''
    : Array.isArray(value)
      ? value.map(textOf).join('\n')
      : typeof value === 'object'
        ? Object.entries(value)
            .map(([name, of]) => `${name} ${textOf(of)}`)
            .join('\n')
        : String(value)
