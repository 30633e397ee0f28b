import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { access, copyFile, glob, mkdir, mkdtemp, readFile, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { eventually } from '../support/eventually.ts'

/** local/setup.sh on a machine whose package manager the test plays: nothing is installed here. */
const run = promisify(execFile)
const folder = await mkdtemp(join(tmpdir(), 'keepsake-setup-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const bin = join(folder, 'bin')
const log = join(folder, 'log')
await mkdir(bin)
const fake = (name: string, script: string) => writeFile(join(bin, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })

// Everything that has its own command is there, of the packages only `jq`; the release lacks one.
for (const name of ['ffmpeg', 'ffprobe', 'vips']) await fake(name, 'exit 0')
// Writes its record last, as the real one does. `npm-fails` interrupts it, and `npm-busy` keeps it from hearing signals.
await fake(
  'npm',
  `[ ! -f npm-busy ] || { trap '' INT TERM; echo $$ > npm-busy; exec sleep 60; }
  echo "npm $@" >> ${log}; [ ! -f npm-fails ] && mkdir -p node_modules/.bin && cp record node_modules/.package-lock.json`,
)
await fake('dpkg-query', 'for last; do :; done; [ "$last" = jq ] && echo "install ok installed"')
await fake('apt-cache', '[ "$2" != postgresql-15 ]')
await fake('apt-get', `echo "$@" >> ${log}`)
await fake('sudo', 'exec "$@"')
await mkdir(join(folder, 'local'))
await copyFile('local/setup.sh', join(folder, 'local/setup.sh'))
await copyFile('package.json', join(folder, 'package.json'))
await writeFile(join(folder, 'package-lock.json'), '{}')
const record = join(folder, 'node_modules/.package-lock.json')
const { dependencies, devDependencies } = JSON.parse(await readFile('package.json', 'utf8')) as Record<string, object>
const script = await readFile('local/setup.sh', 'utf8')
const PLATFORM = /^platform="(.*)"$/m.exec(script)?.[1]?.split(' ') ?? []

/** What npm has installed here: nothing, what the platform runs on, or everything. */
async function given(packages: 'none' | 'platform' | 'all'): Promise<void> {
  await rm(join(folder, 'node_modules'), { recursive: true, force: true })
  if (packages === 'none') return
  await mkdir(join(folder, 'node_modules/.bin'), { recursive: true })
  await symlink(process.execPath, join(folder, 'node_modules/.bin/node'))
  for (const name of PLATFORM) await mkdir(join(folder, 'node_modules', name))
  if (packages === 'all') await mkdir(join(folder, 'node_modules/tap'))
  await writeFile(record, packages === 'all' ? '{ "packages": { "node_modules/tap": {} } }' : '{}')
}
await given('all')

async function setup(...options: string[]) {
  await writeFile(log, '')
  const env = { PATH: `${bin}:${process.env['PATH']}` }
  const { stderr } = await run('sh', [join(folder, 'local/setup.sh'), ...options], { env })
  const lines = (await readFile(log, 'utf8')).split('\n')
  const asked = lines.find((line) => line.startsWith('install')) ?? ''
  const npm = lines.filter((line) => line.startsWith('npm '))
  return { said: stderr, installed: asked.split(' ').filter((word) => !/^(install|-.*)?$/.test(word)), npm }
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

const CI = /^npm ci --include=dev /
const TOOLS = /^npm install --no-save --include=dev /
const FEW = /^npm install --no-save --omit=dev --save-prod .* node@[\d.]+ .*preact@[\d.]+$/

for (const [has, options, wanted] of [
  ['none', [], CI],
  ['none', ['--demo'], FEW],
  ['platform', [], TOOLS],
  ['platform', ['--demo'], undefined],
  ['all', [], undefined],
  ['all', ['--demo'], undefined],
] as const) {
  const name = options[0] === '--demo' ? 'the demo' : 'the tests'
  t.test(
    `where npm has installed ${has}, ${name} ${wanted ? 'install what is missing' : 'install nothing'}`,
    async (t) => {
      await given(has)
      await writeFile(join(folder, 'record'), '{}')
      const { npm } = await setup(...options)
      t.match(npm, wanted ? [wanted] : [])
      t.equal(npm.length, wanted ? 1 : 0)
    },
  )
}

t.test('who has the tools keeps them when the lock file changes', async (t) => {
  await given('all')
  const soon = new Date(Date.now() + 5000)
  await utimes(join(folder, 'package-lock.json'), soon, soon)
  t.match((await setup('--demo')).npm, [CI])
  await utimes(join(folder, 'package-lock.json'), new Date(0), new Date(0))
})

t.test('a package that became part of the platform is installed, though the lock file is the same', async (t) => {
  await given('platform')
  await rm(join(folder, 'node_modules/preact'), { recursive: true })
  t.match((await setup('--demo')).npm, [FEW])
})

t.test('what an interrupted npm leaves is not taken for complete', async (t) => {
  await given('platform')
  await writeFile(join(folder, 'npm-fails'), '')
  await t.rejects(setup(), { code: 1 })
  await t.rejects(access(record))
  await rm(join(folder, 'npm-fails'))
  t.match((await setup()).npm, [CI])
})

t.test('an npm that hears no signal has ended when the setup has', async (t) => {
  await given('none')
  const busy = join(folder, 'npm-busy')
  await writeFile(busy, '')
  const env = { PATH: `${bin}:${process.env['PATH']}` }
  const child = spawn('sh', [join(folder, 'local/setup.sh')], { env, stdio: 'ignore' })
  const ended = once(child, 'exit')
  const npm = Number(await eventually('npm', async () => (await readFile(busy, 'utf8')).trim()))
  t.teardown(() => rm(busy))
  child.kill('SIGINT')
  t.strictSame(await ended, [130, null])
  t.throws(() => process.kill(npm, 0), { code: 'ESRCH' })
})

t.test('the platform needs no other package than setup.sh --demo installs', async (t) => {
  const found = new Set<string>(['node'])
  for await (const file of glob('{api,crds,jobs,lib,local,operator}/**/*.ts', { exclude: ['**/generate*.ts'] })) {
    const text = await readFile(file, 'utf8')
    const imports = text.matchAll(
      /(?:^(?:import (?!type )|export |\} ).*from |^import |\bimport\(|meta\.resolve\(|vendored\('[^']+', )'([^.'][^']*)'/gm,
    )
    for (const [, name = ''] of imports) {
      const [scope, second] = name.split('/')
      if (!name.startsWith('node:')) found.add(name.startsWith('@') ? `${scope}/${second}` : (scope ?? ''))
    }
  }
  const others = [...found].filter((name) => !Object.hasOwn(dependencies ?? {}, name))
  t.strictSame(others.sort(), [...PLATFORM].sort())
  for (const name of PLATFORM) t.ok(Object.hasOwn(devDependencies ?? {}, name), name)
})
