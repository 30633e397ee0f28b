import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { SoundSource } from '../../../../jobs/highlight/sound/item-sound.ts'
import { renderSound } from '../../../../jobs/highlight/sound/render-sound.ts'
import { ffmpeg, leftOf, loudness, recording, rms, speech } from '../../../support/sound.ts'

const RATE = 48_000
const { signal } = new AbortController()

/** A highlight with hard cuts, of recordings and seconds of silence. */
async function highlight(t: Test, items: (string | number)[], music: string, seconds = 6) {
  const scratch = join(t.testdirName, 'scratch')
  await mkdir(scratch, { recursive: true })
  const out = join(t.testdirName, 'highlight.wav')
  const sources = items.map(
    (item): SoundSource =>
      typeof item === 'number'
        ? { path: null, stream: null, startSec: 0, frames: item * 30 }
        : { path: item, stream: 0, startSec: 0, frames: seconds * 30 },
  )
  const totalFrames = sources.reduce((sum, { frames }) => sum + frames, 0)
  const joins = { transition: 'cut', overlaps: items.slice(1).map(() => 0), fadeFrames: 0 } as const
  const tools = { scratch, signal }
  const levels = await renderSound({
    ...joins,
    ...tools,
    items: sources,
    totalFrames,
    out,
    music: { path: music, name: 'Morning' },
  })
  return { out, ...levels }
}

/** Keeps music, a tone of 3 kHz, or what people say, which is below 1 kHz. */
const MUSIC = 'highpass=f=2500:p=2,highpass=f=2500:p=2,highpass=f=2500:p=2'
const tune = (type: string, seconds: number, ...options: string[]) =>
  recording(type, `aevalsrc='0.3*sin(2*PI*3000*t)':s=44100:d=${seconds}`, ...options)

t.test('music goes under speech, and comes up where the highlight is silent', async (t) => {
  t.testdir({})
  const voice = `aevalsrc='${speech(0.3)}':s=48000:d=7,lowpass=f=900:p=2,lowpass=f=900:p=2`
  const talk = await recording('mov', voice, '-c:a', 'pcm_s16le')
  const { out, highlight: levels } = await highlight(t, [talk, 7, talk], await tune('mp3', 30, '-b:a', '128k'))
  const under = await loudness(out, 1, 5, MUSIC)
  const said = await loudness(out, 1, 5, 'lowpass=f=1500:p=2')
  const between = await loudness(out, 9, 12, MUSIC)
  const again = await loudness(out, 13, 16, MUSIC)
  t.ok(said.integrated - under.integrated >= 10, `speech at ${said.integrated}, music at ${under.integrated} LUFS`)
  t.ok(between.integrated - under.integrated >= 8, `${between.integrated} LUFS in silence`)
  t.ok(Math.abs(again.integrated - under.integrated) < 1.5, `${again.integrated} LUFS from the first word on`)
  t.ok((levels?.truePeak ?? 0) <= -1.4)
})

t.test('a highlight of pictures has its music at full loudness, and the music fades in and out', async (t) => {
  t.testdir({})
  const { out, highlight: levels } = await highlight(t, [6, 6], await tune('flac', 30))
  t.ok(Math.abs((await loudness(out, 1, 9)).integrated + 16) < 0.7)
  t.ok(Math.abs((levels?.integrated ?? 0) + 16) < 1)
  const samples = await leftOf(out)
  t.equal(samples.length, 12 * RATE)
  const level = (from: number, to: number) => rms(samples.subarray(from * RATE, to * RATE))
  t.ok(level(0, 0.1) < 0.2 * level(2, 3), 'it fades in')
  t.ok(level(10.8, 11.2) < 0.8 * level(2, 3), 'it is on its way out in the last two seconds')
  t.ok(level(11.9, 12) < 0.02 * level(2, 3), 'the highlight ends in silence')
})

for (const [type, options] of [
  ['mp3', ['-b:a', '128k', '-write_xing', '0']],
  ['wav', []],
  ['ogg', ['-c:a', 'libvorbis']],
  ['m4a', ['-c:a', 'aac']],
] as const) {
  t.test(`music shorter than the highlight is repeated without a gap: ${type}`, async (t) => {
    t.testdir({})
    const { out } = await highlight(t, [6], await tune(type, 1.1, ...options))
    const samples = await leftOf(out)
    const step = RATE / 100
    const windows = Array.from({ length: 300 }, (_, i) => rms(samples.subarray((i + 80) * step, (i + 81) * step)))
    const quietest = Math.min(...windows) / (windows[10] ?? 1)
    t.ok(quietest > 0.5, `${type}: at its quietest ${quietest.toFixed(2)} of its usual level`)
    const steady = samples.subarray(0.8 * RATE, 3.8 * RATE)
    const peak = steady.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0)
    const jump = steady.reduce((most, s, i) => Math.max(most, Math.abs(s - (steady[i - 1] ?? s))), 0)
    // A tone of 3 kHz moves by up to 0.39 of its peak from one sample to the next.
    t.ok(jump < 0.55 * peak, `${type}: no click`)
  })
}

t.test('a track that cannot be decoded is named, and fails for good', async (t) => {
  const playlist = '#EXTM3U\n#EXTINF:1\nfile:///etc/passwd\n'
  t.testdir({ 'broken.mp3': Buffer.alloc(9000, 3), 'empty.mp3': '', 'list.mp3': playlist })
  const picture = join(t.testdirName, 'picture.mp4')
  await ffmpeg('-v', 'error', '-f', 'lavfi', '-i', 'color=s=64x64:d=1', '-c:v', 'mpeg4', picture)
  for (const name of ['broken.mp3', 'empty.mp3', 'list.mp3', 'picture.mp4']) {
    await t.rejects(
      highlight(t, [2], join(t.testdirName, name)),
      { name: 'PermanentError', reason: 'MusicFailed', message: /“Morning”/ },
      name,
    )
  }
})

t.test('silent music is silence', async (t) => {
  t.testdir({})
  const { highlight: levels } = await highlight(t, [2], await recording('wav', 'anullsrc=d=1'))
  t.equal(levels, null)
})
