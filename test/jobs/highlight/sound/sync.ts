import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { renderItemSound, type SoundSource } from '../../../../jobs/highlight/sound/item-sound.ts'
import { mixHighlight } from '../../../../jobs/highlight/sound/mix.ts'
import { renderSound } from '../../../../jobs/highlight/sound/render-sound.ts'
import { clipOf } from '../../../support/clips.ts'
import { BEEPS_EVERY, ffmpeg, firstAbove, joinedSound, leftOf, onsets, recording, rms } from '../../../support/sound.ts'

const { signal } = new AbortController()
const RATE = 48_000

/** A second of quiet tone with a click of a tenth of a second at each of these seconds. */
const clicks = (...at: number[]) =>
  `'0.02*sin(2*PI*200*t)+${at.map((s) => `0.7*between(t,${s},${s + 0.1})*sin(2*PI*1000*(t-${s}))`).join('+')}'`

/** A picture of seven seconds beside the sound, as a camera makes it. */
const PICTURE = ['-f', 'lavfi', '-i', 'color=s=64x64:r=30000/1001:d=7']

async function tools(t: Test) {
  const scratch = join(t.testdirName, 'scratch')
  await mkdir(scratch, { recursive: true })
  return { scratch, signal, out: join(t.testdirName, 'highlight.wav') }
}

/** The highlight of one item. */
async function render(t: Test, item: SoundSource): Promise<Float64Array> {
  const to = await tools(t)
  const joins = { transition: 'cut', overlaps: [], fadeFrames: 0 } as const
  await renderSound({ ...joins, ...to, items: [item], totalFrames: item.frames })
  return leftOf(to.out)
}

const near = (t: Test, found: number, seconds: number, name: string, tolerance = 0.002) =>
  t.ok(Math.abs(found / RATE - seconds) <= tolerance, `${name}: ${found / RATE} s for ${seconds} s`)

const CONTAINERS: Record<string, { type: string; options: string[]; rate: number; tolerance?: number }> = {
  // The program that makes this file writes its sound 6.5 ms early.
  'AAC of a phone': { type: 'mp4', options: ['-c:v', 'mpeg4', '-c:a', 'aac', '-b:a', '96k'], rate: 44_100 },
  'Opus of a browser': {
    type: 'webm',
    options: ['-c:v', 'libvpx', '-deadline', 'realtime', '-cpu-used', '8', '-c:a', 'libopus'],
    rate: 48_000,
    tolerance: 0.007,
  },
  'PCM of a camera': { type: 'mov', options: ['-c:v', 'mpeg4', '-c:a', 'pcm_s16be'], rate: 32_000 },
  'FLAC with 5.1 channels': { type: 'mkv', options: ['-c:v', 'mpeg4', '-c:a', 'flac', '-ac', '6'], rate: 48_000 },
}
for (const [kind, { type, options, rate, tolerance }] of Object.entries(CONTAINERS)) {
  t.test(`${kind}: sound that begins late stays where the picture has it`, async (t) => {
    t.testdir({})
    const sound = ['-itsoffset', '0.4', '-f', 'lavfi', '-i', `aevalsrc=${clicks(1, 4.5)}:s=${rate}:d=6`]
    const path = await clipOf([...PICTURE, ...sound, '-map', '0:v', '-map', '1:a', ...options], type)
    const whole = await render(t, { path, stream: 1, startSec: 0, frames: 200 })
    t.equal(whole.length, 200 * 1600)
    near(t, firstAbove(whole, 0.3), 1.4, 'from the start', tolerance)
    near(t, firstAbove(whole, 0.3, 2 * RATE), 4.9, 'from the start', tolerance)
    t.ok(rms(whole.subarray(0, 0.38 * RATE)) < 1e-4, 'nothing is heard before the sound begins')
    const later = await render(t, { path, stream: 1, startSec: 3.217, frames: 77 })
    t.equal(later.length, 77 * 1600)
    near(t, firstAbove(later, 0.3), 4.9 - 3.217, 'from the middle', tolerance)
  })
}

t.test('a gap in the sound stays a gap', async (t) => {
  t.testdir({})
  const sound = ['-f', 'lavfi', '-i', `aevalsrc=${clicks(0.5, 4)}:s=44100:d=6`]
  // What lies behind the gap keeps its times.
  const without = ['-af', "aselect='not(between(t,1,3))'"]
  const path = await clipOf([...sound, ...without, '-c:a', 'flac'], 'mkv')
  const samples = await render(t, { path, stream: 0, startSec: 0, frames: 180 })
  near(t, firstAbove(samples, 0.3), 0.5, 'before')
  near(t, firstAbove(samples, 0.3, RATE), 4, 'behind', 0.01)
  t.ok(rms(samples.subarray(1.2 * RATE, 2.8 * RATE)) < 0.001)
})

t.test('a gap too short to be filled is followed', async (t) => {
  t.testdir({})
  const sound = ['-f', 'lavfi', '-i', `aevalsrc=${clicks(11)}:s=48000:d=12`]
  const without = ['-af', "aselect='not(between(t,0.5,0.53))'"]
  const path = await clipOf([...sound, ...without, '-c:a', 'flac'], 'mkv')
  const samples = await render(t, { path, stream: 0, startSec: 0, frames: 350 })
  near(t, firstAbove(samples, 0.3), 11, 'behind')
})

t.test('sound that changes its channels midway stays where it is, and all of it is measured', async (t) => {
  t.testdir({})
  for (const [late, startSec] of [
    [0, 0],
    [0, 1.25],
    [0.8, 0],
    [0.8, 1.25],
  ] as const) {
    const joined = ['-itsoffset', String(late), '-i', await joinedSound(), '-map', '0:v', '-map', '1:a', '-c:a', 'copy']
    const path = await clipOf([...PICTURE, ...joined, '-c:v', 'mpeg4'], 'mkv')
    const to = await tools(t)
    const sound = await renderItemSound({ path, stream: 1, startSec, frames: 80 }, { ...to, out: `${to.out}.s16` })
    await ffmpeg('-f', 's16le', '-ar', '48000', '-ac', '2', '-i', `${to.out}.s16`, to.out)
    const due = [0, 1, 2, 3].map((k) => late + 0.5 + k * BEEPS_EVERY - startSec).filter((at) => at > 0 && at < 80 / 30)
    const heard = await onsets(to.out)
    t.equal(heard.length, due.length)
    for (const [k, at] of due.entries()) near(t, (heard[k] ?? Number.NaN) * RATE, at, `beep ${k}`, 0.01)
    const loud = sound.momentary.flatMap((lufs, k) => (lufs > -60 ? k / 10 : []))
    t.ok(
      due.every((at) => loud.some((second) => second > at - 0.1 && second < at + 0.4)),
      `${loud.join(', ')}`,
    )
  }
})

t.test('sound that ends early, or before the item begins, is followed by silence', async (t) => {
  t.testdir({})
  const sound = ['-f', 'lavfi', '-i', 'sine=d=1:r=48000']
  const path = await clipOf([...PICTURE, ...sound, '-c:v', 'mpeg4', '-c:a', 'aac'])
  const early = await render(t, { path, stream: 1, startSec: 0, frames: 90 })
  t.ok(rms(early.subarray(0, 0.9 * RATE)) > 0.05)
  t.equal(rms(early.subarray(1.1 * RATE)), 0)
  const never = await render(t, { path, stream: 1, startSec: 4, frames: 60 })
  t.strictSame([never.length, rms(never)], [96_000, 0])
})

t.test('sixteen clips with awkward rates end on time, and each begins on time', async (t) => {
  t.testdir({})
  const rates = [44_100, 22_050, 11_025, 8000, 16_000, 32_000, 48_000, 96_000]
  const makes = rates.map((rate, i) =>
    recording('mov', `aevalsrc=${clicks(1.2)}:s=${rate}:d=3`, '-c:a', i % 2 ? 'aac' : 'pcm_s16le'),
  )
  const paths = await Promise.all(makes)
  const items = Array.from({ length: 2 * rates.length }, (_, i) => ({
    path: paths[i % paths.length] ?? null,
    stream: 0,
    startSec: (i % 4) * 0.1001,
    frames: 61 + (i % 7),
  }))
  const overlaps = items.slice(1).map((_, i) => (i % 3 === 0 ? 0 : 5 + (i % 20)))
  const totalFrames = items.reduce((sum, i) => sum + i.frames, 0) - overlaps.reduce((a, b) => a + b, 0)
  const to = await tools(t)
  await renderSound({ ...to, items, overlaps, totalFrames, transition: 'crossfade', fadeFrames: 0 })
  const samples = await leftOf(to.out)
  t.equal(samples.length, totalFrames * 1600)
  let start = 0
  for (const [k, item] of items.entries()) {
    start -= (overlaps[k - 1] ?? 0) * 1600
    const expected = start / RATE + 1.2 - item.startSec
    near(t, firstAbove(samples, 0.2, Math.round((expected - 0.05) * RATE)), expected, `clip ${k}`, 0.001)
    start += item.frames * 1600
  }
})

t.test('a crossfade keeps the loudness, a cut has no click, a fade ends in silence', async (t) => {
  t.testdir({})
  const to = await tools(t)
  const sources = await Promise.all(
    [1, 2].map((seed) => recording('mov', `anoisesrc=a=0.2:d=4:seed=${seed}`, '-c:a', 'pcm_s16le')),
  )
  const items = await Promise.all(
    sources.map((path, i) => {
      const scratch = join(t.testdirName, `item-${i}`)
      return mkdir(scratch).then(() =>
        renderItemSound({ path, stream: 0, startSec: 0, frames: 90 }, { ...to, scratch, out: join(scratch, 'out') }),
      )
    }),
  )
  const highlight = async (transition: 'cut' | 'crossfade' | 'fade', overlap: number) => {
    await mixHighlight(
      { items, transition, overlaps: [overlap], totalFrames: 180 - overlap, fadeFrames: 15, out: to.out },
      to,
    )
    return leftOf(to.out)
  }
  const crossed = await highlight('crossfade', 30)
  const levels = Array.from({ length: 20 }, (_, i) =>
    rms(crossed.subarray((1 + i * 0.15) * RATE, (1.15 + i * 0.15) * RATE)),
  )
  t.ok(20 * Math.log10(Math.max(...levels) / Math.min(...levels)) < 1, `${levels.map((l) => l.toFixed(3))}`)
  const cut = await highlight('cut', 0)
  t.ok(rms(cut.subarray(3 * RATE - 12, 3 * RATE + 12)) < 0.01 * (levels[0] ?? 0), 'silent at the cut itself')
  t.ok(rms(cut.subarray(3 * RATE - 600, 3 * RATE - 300)) > 0.7 * (levels[0] ?? 0), 'and loud just before')
  const faded = await highlight('fade', 0)
  t.ok(rms(faded.subarray(2.95 * RATE, 3.05 * RATE)) < 0.05 * (levels[0] ?? 0))
  t.ok(rms(faded.subarray(2.2 * RATE, 2.5 * RATE)) > 0.9 * (levels[0] ?? 0))
  await t.rejects(
    mixHighlight({ items, transition: 'cut', overlaps: [0], totalFrames: 179, fadeFrames: 0, out: to.out }, to),
    /180 frames, the highlight 179/,
  )
})

t.test('what cannot be decoded is named', async (t) => {
  t.testdir({ 'noise.mp4': Buffer.alloc(5000, 7) })
  const noise = join(t.testdirName, 'noise.mp4')
  await t.rejects(render(t, { path: noise, stream: 0, startSec: 0, frames: 30 }), {
    name: 'PermanentError',
    reason: 'CorruptInput',
  })
})
