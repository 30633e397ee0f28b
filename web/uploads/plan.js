import { groupBy } from '../lib/group-by.js'

const TYPES = {
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  png: 'image/png',
  webp: 'image/webp',
  gif: 'image/gif',
  avif: 'image/avif',
  heic: 'image/heic',
  heif: 'image/heif',
  mp4: 'video/mp4',
  mov: 'video/quicktime',
  m4v: 'video/x-m4v',
  '3gp': 'video/3gpp',
  '3g2': 'video/3gpp2',
  mkv: 'video/x-matroska',
  webm: 'video/webm',
}
/** The motion of a Live Photo lasts three seconds. A long video that happens to share the name of a photo is no part of it. */
const MOTION_BYTES = 40_000_000
const LIVE_IMAGES = ['heic', 'heif', 'jpg', 'jpeg']
const LIVE_VIDEOS = ['mov', 'mp4']
/** Files that systems put into folders by themselves. */
const SYSTEM = /^(\.|thumbs\.db$|desktop\.ini$)/i

const extensionOf = (name) => /\.([^.]+)$/.exec(name)?.[1].toLowerCase() ?? ''
const stemOf = (path) => path.replace(/\.[^./]+$/, '').toLowerCase()

/** The type to declare. Browsers do not know all of these, HEIC in particular; the API looks at the bytes. */
export const typeOf = (name) => TYPES[extensionOf(name)]

/** Names a file across reloads: the same folder dropped again consists of the same files. */
export const keyOf = (org, { path, file }) => [org, path, file.size, file.lastModified].join('|')

/**
 * Sorts what was chosen or dropped: `accepted` in the order of their paths, each with its type, and for the halves of a
 * Live Photo with the same `stem`; `skipped` are names of files that are neither photos nor videos.
 */
export function planUpload(entries) {
  const wanted = entries.filter(({ file }) => !SYSTEM.test(file.name))
  const skipped = wanted.filter(({ file }) => !typeOf(file.name) || file.size === 0).map(({ file }) => file.name)
  const accepted = wanted
    .filter(({ file }) => typeOf(file.name) && file.size > 0)
    .sort((a, b) => a.path.localeCompare(b.path, undefined, { numeric: true }))
  const stems = groupBy(accepted, ({ path }) => stemOf(path))
  return {
    skipped,
    accepted: accepted.map((e) => ({ ...e, type: typeOf(e.file.name), stem: liveStem(stems, e.path) })),
  }
}

/** The stem that exactly one photo and one short video have in common. Of three files it is unclear which two are a pair. */
function liveStem(stems, path) {
  const stem = stemOf(path)
  const group = stems.get(stem)
  const images = group.filter(({ path: p }) => LIVE_IMAGES.includes(extensionOf(p)))
  const videos = group.filter(({ path: p, file }) => LIVE_VIDEOS.includes(extensionOf(p)) && file.size <= MOTION_BYTES)
  return group.length === 2 && images.length === 1 && videos.length === 1 ? stem : undefined
}
