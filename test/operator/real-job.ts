import { execFileSync } from 'node:child_process'
import { createReadStream, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { succeededOf } from '../../crds/run.ts'
import { TRANSCODE_JOBS } from '../../crds/transcode-job.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import type { KubeObject } from '../../lib/runtime/kube/cluster.ts'
import { openFolderStore } from '../../lib/runtime/object-store/folder.ts'
import { openLocalCluster } from '../../local/cluster/local-cluster.ts'
import { OperatorConfig } from '../../operator/config.ts'
import { startOperator } from '../../operator/operator.ts'
import type { RawResource } from '../../operator/program/kind.ts'
import { eventually } from '../support/eventually.ts'
import { operatorEnv } from '../support/operator-world.ts'
import { quietLog } from '../support/quiet-log.ts'
import { anInput, newTranscodeJob } from '../support/transcode-job.ts'

/** Operator and in-process cluster: Jobs are the real program, run by the real Node with the real ffmpeg. */
async function open(t: { teardown(fn: () => Promise<void>): unknown }) {
  const folder = mkdtempSync(join(tmpdir(), 'operator-real-'))
  const objects = join(folder, 'objects')
  mkdirSync(objects)
  const store = openFolderStore({ folder: objects })
  const secrets = { 'object-store': { STORE_KIND: 'folder', STORE_FOLDER: objects } }
  const cluster = openLocalCluster({ folder: join(folder, 'cluster'), secrets, log: quietLog() })
  const config = loadConfig(OperatorConfig, operatorEnv())
  const operator = await startOperator({ config, cluster, log: quietLog(), tuning: { progressIntervalMs: 100 } })
  t.teardown(async () => {
    await operator.close()
    await cluster.close()
    await store.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const key = { namespace: 'media', name: 'med-1' }
  return {
    folder,
    store,
    cluster,
    submit: (spec: object = {}) =>
      cluster.create(TRANSCODE_JOBS, newTranscodeJob({ spec: { renditions: ['360p'], ...spec } }) as KubeObject),
    seen: async () => (await cluster.get<RawResource>(TRANSCODE_JOBS, key))?.status,
    over: async () => {
      await eventually(
        'the end',
        async () => {
          const resource = await cluster.get<RawResource>(TRANSCODE_JOBS, key)
          return ['True', 'False'].includes(succeededOf(resource?.status)?.status ?? '')
        },
        60_000,
      )
    },
  }
}

t.test('a clip becomes a manifest and a status that names it', { timeout: 90_000 }, async (t) => {
  const w = await open(t)
  const clip = join(w.folder, 'clip.mp4')
  const picture = ['-f', 'lavfi', '-i', 'testsrc2=s=640x360:r=25:d=2', '-pix_fmt', 'yuv420p']
  execFileSync('ffmpeg', ['-nostdin', '-loglevel', 'error', ...picture, clip])
  const { sourceKey, outputPrefix } = anInput()
  await w.store.put(sourceKey, createReadStream(clip), { contentType: 'video/mp4' })
  await w.submit()
  await w.over()
  const status = await w.seen()
  const manifestKey = `${outputPrefix}manifest.json`
  t.match(status, {
    phase: 'Succeeded',
    attempts: 1,
    accelerator: 'cpu',
    progress: { percent: 100, playable: ['m1'] },
    outputs: [{ id: 'm1', state: 'Succeeded', manifestKey }],
  })
  t.ok(await w.store.head(manifestKey), 'and it is there')
})

t.test(
  'a source that is missing fails for good after one attempt, with the reason of the program',
  { timeout: 90_000 },
  async (t) => {
    const w = await open(t)
    await w.submit()
    await w.over()
    const status = await w.seen()
    t.match(status, { phase: 'Failed', attempts: 1, outputs: [{ id: 'm1', state: 'Failed' }] })
    t.match(succeededOf(status), { status: 'False', reason: 'InputMissing' })
  },
)
