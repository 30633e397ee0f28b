import t from 'tap'
import { OperatorConfig } from '../../../operator/config.ts'
import { bytesOf } from '../../../operator/jobs/quantity.ts'
import { clipOf } from '../../support/clips.ts'
import { transcodeBench } from '../../support/transcode-run.ts'
import { watchMemory } from '../../support/tree-memory.ts'

/** What the pod of a conversion may use; the store proxy has a limit of its own. */
const LIMIT = bytesOf(OperatorConfig.shape.JOB_MEMORY.parse(undefined))
/** As many frames as the threads of a large node would hold at once, and of a level that is not copied. */
const FULL_HD = ['-f', 'lavfi', '-i', 'smptebars=s=1920x1080:r=30:d=3', '-c:v', 'libx264', '-preset', 'ultrafast']

t.test('a ladder of 1080p stays within the memory of its pod, however many cores the pod has', async (t) => {
  const bench = await transcodeBench(t)
  const input = await bench.inputOf(await clipOf([...FULL_HD, '-level', '5.1', '-pix_fmt', 'yuv420p']))
  // The preset of production, which looks further ahead than that of other tests.
  const job = bench.start([input], { renditions: ['360p', '720p', '1080p'] }, { X264_PRESET: 'veryfast', CORES: '64' })
  const peak = watchMemory(job.process.pid ?? 0, 20)
  const { exit, output } = await job.finished
  const { held } = peak()
  t.equal(exit, 0, output)
  t.ok(held < LIMIT / 1.5, `${Math.round(held / 2 ** 20)} MiB of ${LIMIT / 2 ** 20}`)
})
