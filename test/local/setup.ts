import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'

/** local/setup.sh on a machine whose package manager the test plays: nothing is installed here. */
const run = promisify(execFile)
const folder = await mkdtemp(join(tmpdir(), 'keepsake-setup-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const bin = join(folder, 'bin')
const log = join(folder, 'log')
await mkdir(bin)
const fake = (name: string, script: string) => writeFile(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })

// Everything that has its own command is there, of the packages only `jq`; the release lacks one.
for (const name of ['ffmpeg', 'ffprobe', 'vips', 'npm']) await fake(name, 'exit 0')
await fake('dpkg-query', 'for last; do :; done; [ "$last" = jq ] && echo "install ok installed"')
await fake('apt-cache', '[ "$2" != postgresql-15 ]')
await fake('apt-get', `echo "$@" >> ${log}`)
await fake('sudo', 'exec "$@"')
await mkdir(join(folder, 'local'))
await copyFile('local/setup.sh', join(folder, 'local/setup.sh'))
await mkdir(join(folder, 'node_modules/.bin'), { recursive: true })
await writeFile(join(folder, 'package-lock.json'), '{}')
await writeFile(join(folder, 'node_modules/.package-lock.json'), '{}')
await symlink(process.execPath, join(folder, 'node_modules/.bin/node'))

async function setup(...options: string[]) {
  await writeFile(log, '')
  const env = { PATH: `${bin}:${process.env['PATH']}` }
  const { stderr } = await run('sh', [join(folder, 'local/setup.sh'), ...options], { env })
  const asked = (await readFile(log, 'utf8')).split('\n').find((line) => line.startsWith('install')) ?? ''
  return { said: stderr, installed: asked.split(' ').filter((word) => !/^(install|-.*)?$/.test(word)) }
}
const FONTS = ['fonts-noto-core', 'fonts-noto-cjk', 'fonts-noto-color-emoji']

t.test('without options no browser and no server is installed', async (t) => {
  t.strictSame((await setup()).installed, FONTS)
})

t.test('--tests installs what tests need and this machine lacks, as far as the release has it', async (t) => {
  const { said, installed } = await setup('--tests')
  const servers = ['nats-server', 'radosgw', 'ceph-mon', 'ceph-osd', 'ceph-mgr', 'ceph-common']
  t.strictSame(installed, [...FONTS, 'chromium-headless-shell', ...servers, 'curl'])
  t.match(said, /This release has no package postgresql-15/)
})

t.test('options add up, and an unknown one changes nothing', async (t) => {
  const { installed } = await setup('--tests', '--cluster', 'tree')
  for (const name of ['chromium-headless-shell', 'buildah', 'tree']) t.ok(installed.includes(name), name)
  await t.rejects(setup('--test'), { code: 2, stderr: 'Unknown option --test\n' })
  t.equal(await readFile(log, 'utf8'), '')
})
