import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { probe } from '../../../jobs/ffmpeg/probe.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'
import { runLadder } from '../../../jobs/hls/ladder-run.ts'
import { parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'
import { openPublisher } from '../../../jobs/hls/publisher.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'
import { clip } from '../../support/clips.ts'
import { pacedPath } from '../../support/paced-ffmpeg.ts'
import { quietLog } from '../../support/quiet-log.ts'

/** What a ladder says of its progress itself: the tracker of a job hides steps back. */

/** Of `longStill`. */
const SECONDS = 120
const SEGMENT_SECONDS = 4
const PATH = process.env['PATH']
t.teardown(() => (process.env['PATH'] = PATH))

async function encode(t: Test) {
  const place = await mkdtemp(join(tmpdir(), 'keepsake-progress-'))
  t.teardown(() => rm(place, { recursive: true, force: true }))
  // A paced ffmpeg runs the one that is found, which must not be another paced one.
  process.env['PATH'] = PATH
  process.env['PATH'] = await pacedPath(place, { ahead: 10, others: 50, smallest: '180p' })
  const { signal } = new AbortController()
  const [sourcePath, folder] = [await clip('longStill'), join(place, 'hls')]
  await mkdir(folder)
  const source = await probe(sourcePath, signal)
  const store = openFolderStore({ folder: join(place, 'store') })
  t.teardown(() => store.close())
  const said: (string | number)[] = []
  const { planReason, videos } = await runLadder({
    ...{ source, sourcePath, folder, scratch: place, signal, log: quietLog() },
    ladder: ladderOf(source, ['180p', '360p']),
    copied: 'it is not',
    segmentSeconds: SEGMENT_SECONDS,
    publisher: openPublisher({ store, prefix: 'p/', folder, targetSeconds: SEGMENT_SECONDS, signal }),
    ...{ accelerator: 'cpu', cores: 2, preset: 'ultrafast' },
    onPlanned: (reason) => said.push(reason),
    onProgress: (fraction) => said.push(fraction),
    onPlayable: () => undefined,
  })
  const frames = videos.map((video) => [video.rendition.name, video.frames])
  const lists = ['180p', '360p'].map(async (name) => text((await store.get(`p/${name}.m3u8`)).body))
  return { said, planReason, frames, lists: (await Promise.all(lists)).map(parseMediaPlaylist) }
}

t.test('progress goes on from where the first pass was overtaken, to the end', async (t) => {
  let { said, planReason, ...made } = await encode(t)
  // On a machine that is held up just then, the first pass goes on, as is right.
  for (let tries = 1; tries < 4 && planReason.startsWith('180p in a pass of its own'); tries++)
    ({ said, planReason, ...made } = await encode(t))
  t.match(planReason, /^180p ran ahead/)
  const count = 10 * SECONDS
  t.strictSame(
    made.frames,
    ['180p', '360p'].map((name) => [name, count]),
  )
  for (const list of made.lists) t.match(list, { ended: true, segments: { length: SECONDS / SEGMENT_SECONDS } })
  const fractions = said.filter((what) => typeof what === 'number')
  const before = said.slice(0, said.indexOf(planReason)).filter((what) => typeof what === 'number')
  t.ok(before.length > 1 && before.length < fractions.length, `${before.length} of ${fractions.length}`)
  t.strictSame(
    fractions,
    fractions.toSorted((a, b) => a - b),
    'no step back',
  )
  t.ok((before.at(-1) ?? 1) < 0.2, 'of a first pass that was not through')
  const end = fractions.at(-1) ?? 0
  t.ok(end > 0.9 && end < 1 + 1e-9, `${end}`)
})
