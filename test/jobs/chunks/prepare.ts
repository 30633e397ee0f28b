import t, { type Test } from 'tap'
import { probe } from '../../../jobs/ffmpeg/probe.ts'
import { cutOf } from '../../../jobs/hls/chunks/cut.ts'
import { planOf } from '../../../jobs/hls/chunks/prepare.ts'
import { ladderOf } from '../../../jobs/hls/ladder.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'
import { clipOf } from '../../support/clips.ts'
import { quietLog } from '../../support/quiet-log.ts'

/** Whether a video that is long enough is shared, by what its packets say. */
async function planned(t: Test, filter: string) {
  const { signal } = new AbortController()
  const sourcePath = await clipOf([
    ...['-f', 'lavfi', '-i', `testsrc2=s=320x180:r=10:d=60,${filter}`],
    ...['-fps_mode', 'vfr', '-c:v', 'libx264', '-preset', 'ultrafast', '-g', '20'],
  ])
  const source = await probe(sourcePath, signal)
  const folder = t.testdir()
  const sharing = { pods: 3, store: openFolderStore({ folder }), sourceKey: 'source.mp4', prefix: 'out/' }
  const o = {
    ...{
      sharing,
      source,
      sourcePath,
      ladder: ladderOf(source, ['180p']),
      segmentSeconds: 2,
      accelerator: 'cpu' as const,
    },
    ...{ preset: 'veryfast' as const, cores: 2, scratch: folder, signal, log: quietLog() },
  }
  const cut = cutOf(o)
  if (!cut) throw new Error('it is too short to be cut')
  return planOf(o, cut)
}

t.test('a video with a picture at each moment is planned, a slide show is not', async (t) => {
  t.match(await planned(t, 'null'), { chunks: [{ firstSegment: 0 }, { firstSegment: 15 }] })
  t.equal(await planned(t, `select='lt(mod(t,20),1)+gt(t,59)'`), undefined)
})
