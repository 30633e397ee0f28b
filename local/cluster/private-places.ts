import { existsSync, readdirSync, realpathSync, statSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** What happens to a folder, or to a file, before an isolated program starts. `from` has no symbolic links. */
export type Place = { act: 'hide'; path: string } | { act: 'keep'; path: string; from: string }

const isBelow = (path: string, folder: string) => path.startsWith(`${folder}/`)

/**
 * In which order folders are hidden and what lies in them is kept: a folder comes before what lies in it, so that a
 * hidden folder may hold a kept one and the other way round. What is hidden is not kept. Pure.
 */
export function inOrder(hidden: readonly string[], kept: readonly { path: string; from: string }[]): Place[] {
  const keep = new Map(
    kept
      .flatMap(({ path, from }) => [{ path, from }, ...(path === from ? [] : [{ path: from, from }])])
      .filter(({ path }) => !hidden.includes(path) && hidden.some((folder) => isBelow(path, folder)))
      .map(({ path, from }) => [path, from]),
  )
  const places: Place[] = [
    ...[...new Set(hidden)].map((path) => ({ act: 'hide' as const, path })),
    ...[...keep].map(([path, from]) => ({ act: 'keep' as const, path, from })),
  ]
  return places.sort((a, b) => a.path.length - b.path.length)
}

/**
 * Where the programs of this user have their sockets (Docker's, the ssh-agent's, the desktop's) and their files. To
 * connect to a socket needs no right to write to its file system.
 */
export function privateFolders(): string[] {
  const { XDG_RUNTIME_DIR } = process.env
  const folders = [
    '/run',
    '/tmp',
    '/var/tmp',
    '/dev/shm',
    tmpdir(),
    homedir(),
    ...(XDG_RUNTIME_DIR ? [XDG_RUNTIME_DIR] : []),
  ]
  // A service's home may be `/`, which cannot be hidden.
  return folders
    .filter((path) => existsSync(path))
    .map(real)
    .filter((path) => path !== '/')
}

const REPOSITORY = fileURLToPath(new URL('../../', import.meta.url)).replace(/\/$/, '')

/** What programs of Jobs need that may lie in a hidden folder: this repository, Node, and the programs in PATH. */
export function neededPlaces(hidden: readonly string[], searchPath: string): { path: string; from: string }[] {
  const isHidden = (path: string) => hidden.some((folder) => isBelow(path, folder))
  const inPath = searchPath.split(delimiter).filter((path) => isAbsolute(path) && existsSync(path))
  const programs = inPath.filter((folder) => isHidden(folder) || isHidden(real(folder)))
  const code = [REPOSITORY, join(REPOSITORY, 'node_modules'), dirname(process.execPath)]
  const places = [...code, ...programs, ...programs.flatMap(linksIn)].filter((path) => existsSync(path))
  return places.map((path) => ({ path, from: real(path) }))
}

/** Programs elsewhere that this folder of PATH leads to. */
function linksIn(folder: string): string[] {
  try {
    const links = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isSymbolicLink())
    const paths = links.map(({ name }) => join(folder, name))
    // No sockets.
    return paths.filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile()).map(real)
  } catch {
    return [] // not a folder, or not readable
  }
}

const real = (path: string) => realpathSync(path)
