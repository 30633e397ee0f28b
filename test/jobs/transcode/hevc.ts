import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { clip } from '../../support/clips.ts'
import { transcodeBench } from '../../support/transcode-run.ts'

/** Videos whose HEVC is served beside the renditions. What may be is decided in hls/hevc-copy.ts. */

const run = promisify(execFile)

t.test('the HEVC of a phone is served as it is, in a master playlist of its own', async (t) => {
  const bench = await transcodeBench(t)
  const path = await clip('hevc')
  const { exit, output, result } = await bench.run([await bench.inputOf(path)])
  t.equal(exit, 0, 'exits with 0', { output })
  t.comment(result?.planReason)
  const folder = await bench.checkout()
  t.comment((await run('bash', ['-c', `ls -l ${folder}; cat ${folder}/*.m3u8; cat ${folder}/manifest.json; cp -r ${folder} /tmp/hv/out`])).stdout)
  t.ok(join(folder))
})
