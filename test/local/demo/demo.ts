import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { demoFolder } from '../../support/demo-run.ts'
import { eventually } from '../../support/eventually.ts'
import { processesOf } from '../../support/platform-process.ts'
import { withSampleMusic } from '../../support/sample-music.ts'
import { slowEncoderPath } from '../../support/slow-ffmpeg.ts'

/**
 * `make demo` that fails or is stopped; test/demo/check.ts has it run to its end. Takes over 20 s: each case of Ctrl-C starts the
 * whole platform.
 */

const { folder, demo, isClean } = await demoFolder(t)
await withSampleMusic(join(folder, '.keepsake'))
const clip = join(folder, 'clip.mp4')
await promisify(execFile)('ffmpeg', [
  ...['-nostdin', '-v', 'error', '-f', 'lavfi', '-i', 'testsrc2=size=640x360:rate=30:duration=7'],
  ...['-f', 'lavfi', '-i', 'sine=duration=7', '-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p'],
  ...['-c:a', 'aac', clip],
])

t.test('a failure is a sentence and exit status 1', async (t: Test) => {
  const broken = join(folder, 'broken.mp4')
  await writeFile(broken, 'no video at all')
  for (const [video, message] of [
    [join(folder, 'nowhere.mp4'), /VIDEO=.*nowhere\.mp4 is not a file/],
    [broken, /broken\.mp4 is not a video that can be read/],
  ] as const) {
    const { ended, output } = demo(t, { VIDEO: video })
    t.equal(await ended, 1)
    t.match(output(), message)
    t.notMatch(output(), /\n +at /, 'no stack')
  }
  await isClean(t)
})

const isUploading = async (output: string) => /^Signed in/m.test(output)
const isConverting = async () => (await processesOf(folder)).some((p) => /ffmpeg -readrate/.test(p))
for (const [moment, isThere] of Object.entries({ upload: isUploading, conversion: isConverting })) {
  t.test(`Ctrl-C in the middle of the ${moment} stops everything before the conversion ends`, async (t: Test) => {
    // The conversion would take minutes: who waited for its end would be found out.
    const { child, ended, output } = demo(t, { VIDEO: clip, PATH: await slowEncoderPath(folder, 0.05) })
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
