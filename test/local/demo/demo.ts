import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { eventually } from '../../support/eventually.ts'
import { processesOf } from '../../support/platform-process.ts'
import { quickEncoderPath, slowEncoderPath } from '../../support/slow-ffmpeg.ts'

/** `make demo`, as a user runs it. Takes over 20 s: each case starts the whole platform and converts a video. */

const folder = await mkdtemp(join(tmpdir(), 'keepsake-demo-test-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const clip = join(folder, 'clip.mp4')
await promisify(execFile)('ffmpeg', [
  ...['-nostdin', '-v', 'error', '-f', 'lavfi', '-i', 'testsrc2=size=640x360:rate=30:duration=7'],
  ...['-f', 'lavfi', '-i', 'sine=duration=7', '-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p'],
  ...['-c:a', 'aac', clip],
])

/** `make demo CHECK=1 VIDEO=…`, with temporary folders of its own below ours. */
function demo(t: Test, video: string, more: Record<string, string> = {}) {
  const { DATABASE_URL: _, ...env } = process.env
  const program = fileURLToPath(new URL('../../../local/demo.ts', import.meta.url))
  const child = spawn(process.execPath, [program], {
    cwd: folder,
    env: { ...env, CHECK: '1', VIDEO: video, TMPDIR: folder, ...more },
  })
  t.teardown(() => void child.kill('SIGKILL'))
  let text = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
    })
  }
  const ended = once(child, 'close').then(([code, signal]) => (code as number | null) ?? String(signal))
  return { child, ended, output: () => text }
}

/** Nothing that the demo made may outlive it. */
async function isClean(t: Test): Promise<void> {
  t.strictSame(await processesOf(folder), [], 'no process is left')
  t.strictSame(
    (await readdir(folder)).filter((name) => /^keepsake-demo-(?!test)/.test(name)),
    [],
    'no folder is left',
  )
}

t.test(
  'CHECK=1 checks the photos and the Live Photo, plays the stream to its end, and leaves nothing',
  async (t: Test) => {
    const { ended, output } = demo(t, clip, { PATH: await quickEncoderPath(folder) })
    t.equal(await ended, 0, output())
    t.match(output(), /Photos .* 5 photos and a Live Photo \(IMG_2107\.(HEIC|JPG) with IMG_2107\.MOV\)/)
    t.match(output(), /Events .* “Thirty years on: the reunion” with guests, and a draft/)
    t.match(output(), /Album .* of the event, with 6 photos, comments and reactions/)
    t.match(output(), 'Checked    5 photos: placeholder, image, WebP and thumbnail, without EXIF')
    t.match(output(), 'Checked    Live Photo: one media item, and its motion plays')
    t.match(output(), /Upload .* in chunks, last ones first: med_/)
    t.match(output(), /Conversion .* completed in .* s, playable after .* s/)
    t.match(output(), /Highlight .* of the event, with music: hlt_/)
    t.match(output(), /Film .* 3 items, 12\.0 s: completed in/)
    t.match(output(), /Checked +highlight: [34] playlists of 12\.0 s, every segment decoded/)
    t.match(output(), /Checked +360p\.m3u8: 2 segments, .* 7\.\d+ s decoded/)
    t.match(output(), /Checked +audio\.m3u8: 2 segments, .* 7\.\d+ s decoded/)
    t.match(output(), 'The stream plays: 2 renditions of 7.00 s')
    await isClean(t)
  },
)

t.test('a failure is a sentence and exit status 1', async (t: Test) => {
  const broken = join(folder, 'broken.mp4')
  await writeFile(broken, 'no video at all')
  for (const [video, message] of [
    [join(folder, 'nowhere.mp4'), /VIDEO=.*nowhere\.mp4 is not a file/],
    [broken, /broken\.mp4 is not a video that can be read/],
  ] as const) {
    const { ended, output } = demo(t, video)
    t.equal(await ended, 1)
    t.match(output(), message)
    t.notMatch(output(), /\n +at /, 'no stack')
  }
  await isClean(t)
})

const isUploading = async (output: string) => /^Signed in/m.test(output)
const isConverting = async () => (await processesOf(folder)).some((p) => /ffmpeg -readrate/.test(p))
for (const [moment, isThere] of Object.entries({ upload: isUploading, conversion: isConverting })) {
  t.test(`Ctrl-C in the middle of the ${moment} stops everything at once`, async (t: Test) => {
    // The conversion would take minutes: who waited for its end would be found out.
    const { child, ended, output } = demo(t, clip, { PATH: await slowEncoderPath(folder, 0.05) })
    await eventually(`the ${moment}`, async () => {
      if (child.exitCode !== null) throw new Error(output())
      return isThere(output())
    })
    child.kill('SIGINT')
    child.kill('SIGINT') // npm hands on what the terminal has sent already
    t.equal(await ended, 0)
    t.match(output(), /Stopping\n$/, 'the last word')
    t.notMatch(output(), /Conversion .* completed/, 'it has not waited for the end of the conversion')
    await isClean(t)
  })
}
