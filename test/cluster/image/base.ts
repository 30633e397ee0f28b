import { existsSync } from 'node:fs'
import { chmod, copyFile, cp, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { threeTries } from '../../support/three-tries.ts'
import { buildah, run } from './command.ts'

/** Where a short name is looked for first: this stands for the image that the Dockerfile starts from. */
const NAME = 'localhost/node:24-bookworm-slim'
const NODE = fileURLToPath(new URL('../../../node_modules/node/bin/node', import.meta.url))
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'

/**
 * Makes the base image, if it is not there yet, from Debian's packages, the Node of the npm package `node`, and this
 * machine's npm. The package managers inside trust and reach what those of this machine do.
 */
export async function ensureBase(cache: string): Promise<void> {
  const version = (await run(NODE, ['--version'])).trim()
  const isThere = await buildah(cache, ['inspect', '--type', 'image', '--format', '{{.OCIv1.Config.Labels}}', NAME])
    .then((labels) => labels.includes(version))
    .catch(() => false)
  if (isThere) return
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-base-'))
  try {
    const debian = join(folder, 'debian.tar')
    const acquire = await aptSettings()
    const options = [...acquire, ...SLIM]
    const variant = ['--quiet', '--variant=minbase', '--include=ca-certificates']
    await threeTries(async () => {
      await rm(debian, { force: true })
      await run('mmdebstrap', [...variant, ...options, 'bookworm', debian])
    })
    const extra = join(folder, 'extra')
    await layNode(extra)
    await commit(cache, version, [debian, extra])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** As Debian's own slim images leave documentation out, licences apart. */
const SLIM = ['doc/*', 'man/*', 'locale/*', 'info/*', 'doc/*/copyright'].map((path) =>
  path.endsWith('copyright')
    ? `--dpkgopt=path-include=/usr/share/${path}`
    : `--dpkgopt=path-exclude=/usr/share/${path}`,
)

/** How this machine reaches Debian's packages: proxies, and whether its clock can be trusted. */
async function aptSettings(): Promise<string[]> {
  const lines = (await run('apt-config', ['dump'])).split('\n')
  return lines
    .filter((line) => /^Acquire::(https?::|Check-)/.test(line) && !line.includes('""'))
    .map((line) => `--aptopt=${line.replace(/;$/, '')}`)
}

async function layNode(root: string): Promise<void> {
  const local = join(root, 'usr', 'local')
  await mkdir(join(local, 'bin'), { recursive: true })
  await copyFile(NODE, join(local, 'bin', 'node'))
  await chmod(join(local, 'bin', 'node'), 0o755)
  // …/npm/bin/npm-cli.js
  const npm = await realpath((await run('sh', ['-c', 'command -v npm'])).trim())
  await cp(dirname(dirname(npm)), join(local, 'lib', 'node_modules', 'npm'), { recursive: true })
  await symlink('../lib/node_modules/npm/bin/npm-cli.js', join(local, 'bin', 'npm'))
  const registry = (await run('npm', ['config', 'get', 'registry'])).trim()
  await mkdir(join(local, 'etc'))
  await writeFile(join(local, 'etc', 'npmrc'), `registry=${registry}\n`)
  if (!existsSync(CERTIFICATES)) return
  await mkdir(join(root, 'etc', 'ssl', 'certs'), { recursive: true })
  await copyFile(CERTIFICATES, join(root, 'etc', 'ssl', 'certs', 'ca-certificates.crt'))
}

async function commit(cache: string, version: string, parts: readonly string[]): Promise<void> {
  const container = (await buildah(cache, ['from', 'scratch'])).trim()
  try {
    for (const part of parts) await buildah(cache, ['add', '--quiet', container, part, '/'])
    const environment = ['--env', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin']
    const trust = ['--env', `NODE_EXTRA_CA_CERTS=${CERTIFICATES}`]
    await buildah(cache, ['config', ...environment, ...trust, '--label', `node=${version}`, container])
    await buildah(cache, ['commit', '--quiet', container, NAME])
  } finally {
    await buildah(cache, ['rm', container])
  }
}
