import { copyFile, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { library, signIn } from '../../../local/demo/client.ts'
import { choosePorts } from '../../../local/ports.ts'
import { clip, clipOf } from '../../support/clips.ts'
import { demoFolder } from '../../support/demo-run.ts'
import { eventually } from '../../support/eventually.ts'
import { processesOf, readDemo } from '../../support/platform-process.ts'
import { withSampleMusic, withSamplePhotos, withSmallPhotos } from '../../support/samples.ts'
import { slowEncoderPath } from '../../support/slow-ffmpeg.ts'

/**
 * `make demo` that fails or is stopped; test/demo/check.ts has it run to its end. Takes over 20 s: each case of Ctrl-C starts the
 * whole platform.
 */

const { folder, demo, isClean } = await demoFolder(t)
const data = join(folder, '.keepsake')

t.test('a video that cannot be used is a sentence and exit status 1, before anything starts', async (t: Test) => {
  const broken = join(folder, 'broken.mp4')
  await writeFile(broken, 'no video at all')
  for (const [video, message] of [
    [join(folder, 'nowhere.mp4'), /VIDEO=.*nowhere\.mp4 is not a file/],
    [broken, /broken\.mp4 is not a video that can be read/],
  ] as const) {
    const { ended, output } = demo(t, { VIDEO: video })
    t.equal(await ended, 1)
    t.match(output(), message)
    t.notMatch(output(), /\n +at |Starting/, 'no stack, and no start')
  }
  await isClean(t)
})

/** Sends Ctrl-C as soon as `isThere`. */
async function interrupted(
  t: Test,
  run: ReturnType<typeof demo>,
  what: string,
  isThere: () => boolean | Promise<boolean>,
) {
  const { child, ended, output } = run
  const look = async () => {
    if (child.exitCode !== null) throw new Error(output())
    return isThere()
  }
  await eventually(what, look, 120_000, 100) // not too often: some read all of /proc
  child.kill('SIGINT')
  child.kill('SIGINT') // npm hands on what the terminal has sent already
  t.equal(await ended, 0)
  t.match(output(), /Stopping\n$/, 'the last word')
  await isClean(t)
}

t.test('Ctrl-C while samples are made and everything starts leaves nothing half made', async (t: Test) => {
  const drafts = async () =>
    (await readdir(join(data, 'samples')).catch(() => [])).filter((name) => /\.\d+\./.test(name))
  const isMaking = async () => (await drafts()).some((name) => name.endsWith('.MOV'))
  // But for the one that takes an encoder a while.
  await withSamplePhotos(data)
  await rm(join(data, 'samples/IMG_2107.MOV'))
  await interrupted(t, demo(t, {}), 'a sample that is being made', isMaking)
  t.strictSame(await drafts(), [])
  t.notOk((await readdir(join(data, 'samples'))).includes('into-the-fractal.mp4'), 'it has not waited for the rest')
})

t.test('the link leads to the page before anything is converted, and Ctrl-C stops what arrives', async (t: Test) => {
  await withSampleMusic(data)
  await withSmallPhotos(data)
  await choosePorts(data, { usual: false }) // which the start prefers to the usual ones: those may be another test's
  // The conversion would take minutes: who waited for its end would be found out.
  const env = { CHECK: '', VIDEO: await clip('silent'), PATH: await slowEncoderPath(folder, 0.01) }
  const run = demo(t, env)
  const link = await eventually('the link', () => /http:\/\/127\.0\.0\.1:\d+\/#key=\S+/.exec(run.output())?.[0])
  const [before = ''] = run.output().split(link)
  t.notMatch(before, /Photos +█|Upload|Conversion/, 'nothing has arrived yet')
  t.equal((await fetch(link)).status, 200)
  const isConverting = () => processesOf(folder).some((p) => /ffmpeg -readrate/.test(p))
  await interrupted(t, run, 'a conversion', isConverting)
  t.notMatch(run.output(), /Conversion .* completed|Failed/, 'it has not waited for the end of the conversion')
})

t.test('the next run uploads only the photos that are missing, and says what fails without ending', async (t: Test) => {
  const sound = join(folder, 'sound.mp4')
  await copyFile(await clipOf(['-f', 'lavfi', '-i', 'sine=duration=1', '-c:a', 'aac']), sound)
  const run = demo(t, { CHECK: '', VIDEO: sound })
  await eventually('the farewell', () => /Ctrl-C stops everything\.\n$/.test(run.output()))
  t.match(run.output(), /Failed: sound\.mp4 could not be converted[\s\S]*The platform keeps running[\s\S]*Album: +http/)
  t.match(run.output(), /Highlight: none[\s\S]*Video: +none/)
  const running = await readDemo(data)
  if (!running) throw new Error('There is no demo.json')
  const client = await signIn(running.base_url, running.accounts.member)
  const { media } = await library(client, running.organizations[0]?.org_id ?? '')
  const photos = media.map((m) => m.original_filename).filter((name) => !name.endsWith('.mp4'))
  t.equal(photos.length, 6)
  t.equal(new Set(photos).size, 6, `each once: ${photos}`)
  await interrupted(t, run, 'the end', async () => true)
})
