import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { clip } from './support/clips.ts'
import { emptyDatabase } from './support/database.ts'
import { startProcess } from './support/platform-process.ts'
import { withSampleMusic } from './support/samples.ts'
import { missingProgram } from './support/services/process.ts'

const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8')
const block = /```sh\n(DEMO=[\s\S]*?)```/.exec(readme)?.[1] ?? ''
const missing = await missingProgram(['bash', 'curl', 'jq'])

t.test(
  'the first request works as the README has it, and leaves nothing behind',
  { skip: missing !== undefined && `${missing} is not installed` },
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'keepsake-readme-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    const database = await emptyDatabase(t)
    await withSampleMusic(join(folder, '.keepsake'))
    await startProcess(t, join(folder, '.keepsake'), { KEEPSAKE_DATABASE_URL: database }).ready()
    // Of several chunks, most of which nobody has to convert: a box of MP4 that is free space.
    const free = Buffer.alloc(1_200_000)
    free.writeUInt32BE(free.length)
    free.write('free', 4)
    await writeFile(join(folder, 'clip.mp4'), [await readFile(await clip('short')), free])
    const bin = await mkdtemp(join(tmpdir(), 'keepsake-readme-bin-'))
    t.teardown(() => rm(bin, { recursive: true, force: true }))
    await writeFile(join(bin, 'ffplay'), '#!/bin/sh\necho "PLAYING $1"\n')
    await chmod(join(bin, 'ffplay'), 0o755)

    const env = { ...process.env, PATH: [bin, process.env['PATH']].join(delimiter) }
    const { stdout } = await promisify(execFile)('bash', ['-euo', 'pipefail', '-c', block], { cwd: folder, env })
    const chunks = stdout.match(/"chunk_index":\d+/g) ?? []
    t.ok(chunks.length > 1, 'in several chunks')
    t.equal(chunks.at(-1), '"chunk_index":0', 'the first one last')
    t.match(stdout, /"upload_status":"completed"/)
    const master = /PLAYING (http\S+)/.exec(stdout)?.[1] ?? ''
    t.match(await (await fetch(master)).text(), /^#EXTM3U/)
    t.strictSame((await readdir(folder)).sort(), ['.keepsake', 'clip.mp4'])
  },
)
