import t from 'tap'
import { OperatorConfig } from '../../../operator/config.ts'
import { bytesOf } from '../../../operator/jobs/quantity.ts'
import { clipOf } from '../../support/clips.ts'
import { highlightBench } from '../../support/highlight-run.ts'
import { watchMemory } from '../../support/tree-memory.ts'

/** What the pod of a highlight may use; the store proxy has a limit of its own. */
const LIMIT = bytesOf(OperatorConfig.shape.HIGHLIGHT_MEMORY.parse(undefined))
const clip = (seconds: number) =>
  clipOf([
    ...['-f', 'lavfi', '-i', `testsrc2=s=1920x1080:r=30:d=${seconds}`],
    ...['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p'],
  ])

t.test('a crossfade of 1080p stays within the memory of its pod, however many cores the pod has', async (t) => {
  const bench = await highlightBench(t)
  // Enough frames beside the crossfade to fill the threads of the decoder and the encoders.
  const items = [await bench.videoOf(await clip(2.2), 'one', 2.2), await bench.videoOf(await clip(1), 'two', 1)]
  const renditions: ('360p' | '720p' | '1080p')[] = ['360p', '720p', '1080p']
  const job = bench.start(items, { transition: 'crossfade', renditions }, { X264_PRESET: 'veryfast', CORES: '64' })
  const peak = watchMemory(job.process.pid ?? 0, 20)
  const { exit, output } = await job.finished
  const { held } = peak()
  t.equal(exit, 0, output)
  t.ok(held < LIMIT, `${Math.round(held / 2 ** 20)} MiB of ${LIMIT / 2 ** 20}`)
})
