import { readFile } from 'node:fs/promises'
import t from 'tap'

const read = (name: string) => readFile(new URL(`../${name}`, import.meta.url), 'utf8')
const ignored = (await read('.dockerignore')).split('\n')
/** Instructions, each on one line, without comments. */
const instructions = (await read('Dockerfile'))
  .split('\n')
  .filter((line) => !/^\s*#/.test(line))
  .join('\n')
  .replaceAll('\\\n', ' ')
  .split('\n')
  .filter((line) => line.trim() !== '')
const ofKind = (kind: string) => instructions.filter((line) => line.startsWith(`${kind} `))

t.test('a step that fails fails the build: no failure is lost in a pipe', async (t) => {
  for (const step of ofKind('RUN')) {
    const outsideQuotes = step.replaceAll(/'[^']*'/g, '').replaceAll('||', '')
    t.notMatch(outsideQuotes, /\|/, step.slice(0, 60))
    if (step.includes(';')) t.match(step, /^RUN set -eu;/)
  }
})

t.test('npm installs what the lock file says, runs no script of a package, and takes nothing new', async (t) => {
  const installs = ofKind('RUN').filter((step) => /\bnpm (ci|install|i)\b/.test(step))
  t.equal(installs.length, 2)
  for (const step of installs) t.match(step, /^RUN npm ci (--omit=dev )?--ignore-scripts /)
  t.equal(ofKind('COPY').filter((step) => step.includes('package-lock.json .npmrc')).length, 2)
  t.ok(ignored.includes('!.npmrc'))
  t.match(await read('.npmrc'), /^min-release-age=[3-9]$/m)
})

t.test('a release can name its base by digest', async (t) => {
  t.match(instructions[0], /^ARG NODE=/)
  for (const from of ofKind('FROM')) t.match(from, /^FROM (\$\{NODE\} AS \w+|scratch)$/)
})

t.test('highlights are made with the same fonts here and in the image', async (t) => {
  const fonts = (text: string) => new Set(text.match(/\bfonts-noto-[a-z-]+/g))
  t.ok(fonts(instructions.join('\n')).size > 0)
  t.strictSame(fonts(await read('local/setup.sh')), fonts(instructions.join('\n')))
})
