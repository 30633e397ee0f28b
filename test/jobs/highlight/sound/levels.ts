import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { SoundSource } from '../../../../jobs/highlight/sound/item-sound.ts'
import { renderSound } from '../../../../jobs/highlight/sound/render-sound.ts'
import { leftOf, loudness, recording, speech } from '../../../support/sound.ts'

/** A highlight of items with hard cuts. */
async function highlight(items: SoundSource[], scratch: string) {
  await mkdir(scratch)
  const out = join(scratch, 'highlight.wav')
  const totalFrames = items.reduce((sum, { frames }) => sum + frames, 0)
  const { signal } = new AbortController()
  const joins = { transition: 'cut', overlaps: items.slice(1).map(() => 0), fadeFrames: 0 } as const
  return { out, ...(await renderSound({ ...joins, items, totalFrames, out, scratch, signal })) }
}
const item = (path: string | null, frames: number, startSec = 0): SoundSource => ({
  path,
  stream: path === null ? null : 0,
  startSec,
  frames,
})

t.test('clips that were recorded loud and quiet are equally loud', async (t) => {
  t.testdir({})
  const volumes = [0.04, 0.2, 1, 1.9]
  const paths = await Promise.all(
    volumes.map((v, i) => recording('mov', `aevalsrc='${speech(v, i)}':s=44100:d=4`, '-c:a', 'pcm_s16le')),
  )
  const { out, highlight: levels } = await highlight(
    paths.map((path) => item(path, 90, 0.5)),
    join(t.testdirName, 'scratch'),
  )
  const measured = await Promise.all(paths.map((_, i) => loudness(out, i * 3, (i + 1) * 3)))
  for (const [i, { integrated }] of measured.entries()) {
    t.ok(Math.abs(integrated + 16) <= 0.5, `at ${volumes[i]} of the volume it became ${integrated} LUFS`)
  }
  const whole = await loudness(out)
  t.ok(whole.truePeak <= -1.5, `peaks at ${whole.truePeak} dBTP`)
  t.match(levels, { integrated: Number, truePeak: Number })
  t.ok(Math.abs((levels?.integrated ?? 0) - whole.integrated) < 0.2)
})

t.test('hiss is not raised, nor is silence', async (t) => {
  t.testdir({})
  const hiss = await recording('mov', 'anoisesrc=a=0.003:d=4:seed=3', '-c:a', 'pcm_s16le')
  const silent = await recording('mov', 'anullsrc=d=4', '-c:a', 'pcm_s16le')
  const items = [item(hiss, 90), item(silent, 90), item(null, 90)]
  const { out, items: made } = await highlight(items, join(t.testdirName, 'scratch'))
  const before = await loudness(hiss, 0, 3)
  const after = await loudness(out, 0, 3)
  t.ok(before.integrated < -50, `${before.integrated}`)
  t.ok(Math.abs(after.integrated - before.integrated) < 0.5, `${after.integrated}`)
  t.ok((await leftOf(out)).subarray(3 * 48_000).every((sample) => sample === 0))
  t.match(made, [{ gainDb: 0 }, { path: null, source: null }, { path: null, source: null }])
})

t.test('quiet talk is raised, but not the room around it', async (t) => {
  t.testdir({})
  const talk = `${speech(0.012)}+0.0002*(random(9)-0.5)`
  const path = await recording('mov', `aevalsrc='${talk}':s=48000:d=8`, '-c:a', 'pcm_s24le')
  const { out, items } = await highlight([item(path, 240)], join(t.testdirName, 'scratch'))
  const before = await loudness(path)
  const after = await loudness(out)
  t.ok(before.integrated < -38 && before.integrated > -50, `${before.integrated}`)
  t.ok(after.integrated > before.integrated + 10, `${after.integrated}`)
  const quietest = Math.min(...(items[0]?.momentary ?? []))
  t.ok(quietest < -38, `the room is at ${quietest} LUFS`)
})

t.test('a clap in a quiet clip does not exceed the ceiling, and the clip is still raised', async (t) => {
  t.testdir({})
  const clap = `${speech(0.1)}+0.95*lt(abs(t-2.5),0.004)*sin(2*PI*3000*t)`
  const path = await recording('mov', `aevalsrc='${clap}':s=48000:d=6`, '-c:a', 'pcm_s16le')
  const { out } = await highlight([item(path, 150)], join(t.testdirName, 'scratch'))
  const before = await loudness(path, 0, 5)
  const after = await loudness(out)
  t.ok(after.truePeak <= -1.5 && after.truePeak > -2.5, `peaks at ${after.truePeak} dBTP`)
  t.ok(after.integrated > before.integrated + 5, `${before.integrated} became ${after.integrated}`)
})

t.test('a highlight without any sound has no level', async (t) => {
  t.testdir({})
  const { highlight: levels, musicGainDb, out } = await highlight([item(null, 60)], join(t.testdirName, 'scratch'))
  t.strictSame([levels, musicGainDb, (await leftOf(out)).length], [null, null, 96_000])
})
