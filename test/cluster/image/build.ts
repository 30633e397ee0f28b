import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { threeTries } from '../../support/three-tries.ts'
import { ensureBase } from './base.ts'
import { buildah, run } from './command.ts'

export interface BuiltImage {
  /** What a pod asks for. */
  reference: string
  /** A docker-archive for `ctr images import` and `kind load image-archive`. */
  archive: string
}

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url))
export const IMAGE_CACHE = join(homedir(), '.cache', 'keepsake', 'image')
const REFERENCE = 'localhost/keepsake:dev'
/** As .dockerignore lets them through, and what says how they are put together. */
const SOURCES = ['Dockerfile', '.dockerignore', '.npmrc', 'package.json', 'package-lock.json', 'tsconfig.json']
const FOLDERS = ['api', 'crds', 'jobs', 'lib', 'operator', 'web']
const KEPT_ARCHIVES = 3
const MAX_LAYERS = 200

/**
 * Builds the product's Dockerfile without a registry and without an engine. The same sources are built once; several
 * callers at once wait for one build. Needs Linux, root, and from Debian: buildah mmdebstrap util-linux.
 */
export async function buildImage(): Promise<BuiltImage> {
  const archive = join(IMAGE_CACHE, `keepsake-${await sourcesKey()}.tar`)
  await mkdir(IMAGE_CACHE, { recursive: true })
  // The lock ends with the process that holds it, however that ends. Under it the others find the work done.
  if (!existsSync(archive)) {
    await run('flock', [join(IMAGE_CACHE, 'lock'), process.execPath, fileURLToPath(import.meta.url), archive])
  }
  return { reference: REFERENCE, archive }
}

async function build(archive: string): Promise<void> {
  if (existsSync(archive)) return
  await ensureBase(IMAGE_CACHE)
  const args = ['build', '--layers', '--force-rm', '--pull-never', '--tag', REFERENCE, REPOSITORY]
  await threeTries(() => buildah(IMAGE_CACHE, args))
  const unfinished = `${archive}.part`
  await rm(unfinished, { force: true })
  await buildah(IMAGE_CACHE, ['push', '--quiet', REFERENCE, `docker-archive:${unfinished}:${REFERENCE}`])
  await rename(unfinished, archive)
  await forgetOld()
}

/** Archives of older sources, and images that no name leads to any more. */
async function forgetOld(): Promise<void> {
  const names = (await readdir(IMAGE_CACHE)).filter((name) => name.startsWith('keepsake-'))
  const aged = await Promise.all(
    names.map(async (name) => ({ name, at: (await stat(join(IMAGE_CACHE, name))).mtimeMs })),
  )
  const old = aged.sort((a, b) => b.at - a.at).slice(KEPT_ARCHIVES)
  await Promise.all(old.map(({ name }) => rm(join(IMAGE_CACHE, name), { force: true })))
  // Layers of earlier builds are what makes the next one quick; a change of sources adds a few small ones.
  const images = (await buildah(IMAGE_CACHE, ['images', '--all', '--quiet'])).split('\n').length
  if (images > MAX_LAYERS) await buildah(IMAGE_CACHE, ['rmi', '--prune', '--force'])
}

async function sourcesKey(): Promise<string> {
  const inFolders = await Promise.all(
    FOLDERS.map(async (folder) => {
      const entries = await readdir(join(REPOSITORY, folder), { recursive: true, withFileTypes: true })
      return entries.filter((e) => e.isFile()).map((e) => join(e.parentPath, e.name).slice(REPOSITORY.length))
    }),
  )
  const hash = createHash('sha256')
  for (const file of [...SOURCES, 'tsconfig.build.json', ...inFolders.flat()].sort()) {
    hash.update(`${file}\0`).update(
      createHash('sha256')
        .update(await readFile(join(REPOSITORY, file)))
        .digest(),
    )
  }
  return hash.digest('hex').slice(0, 16)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [archive = ''] = process.argv.slice(2)
  if (archive) await build(archive)
  else console.log((await buildImage()).archive)
}
