import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { installedTool, quickTools } from './support/quick-tools.ts'

/** The copies of ffmpeg and vips that the tests run are those that are installed. */

const run = promisify(execFile)
const cache = await mkdtemp(join(tmpdir(), 'keepsake-tools-'))
t.teardown(() => rm(cache, { recursive: true, force: true }))
const tools = await quickTools(cache)

t.test(
  'a copy says of itself what the installed program says',
  { skip: !tools && 'only for Linux' },
  async (t: Test) => {
    for (const [tool, ...args] of [
      ['ffmpeg', '-codecs'],
      ['ffmpeg', '-filters'],
      ['ffprobe', '-formats'],
      ['vips', '--version'],
    ] as const) {
      const [copy, original] = await Promise.all(
        [join(tools ?? '', tool), (await installedTool(tool)) ?? ''].map((path) => run(path, args)),
      )
      t.equal(copy?.stdout, original?.stdout, [tool, ...args].join(' '))
      t.match(original?.stdout, /\S/, `${tool} says something`)
    }
  },
)
