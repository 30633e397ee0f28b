import t from 'tap'
import { pieceScope } from '../../../lib/contract/piece-scope.ts'
import { StoreGrant } from '../../../lib/contract/store-proxy.ts'
import { loadConfig } from '../../../lib/runtime/config.ts'
import { OperatorConfig } from '../../../operator/config.ts'
import { highlightRender } from '../../../operator/highlight-render/kind.ts'
import { childJob } from '../../../operator/program/child.ts'
import { aHighlightItem, newHighlightRender } from '../../support/highlight-render.ts'
import { operatorEnv } from '../../support/operator-world.ts'
import { programConfig } from '../../support/program-kinds.ts'

function parsed(spec: object = {}) {
  const made = highlightRender.parse(newHighlightRender({ metadata: { uid: 'uid-1' }, spec }))
  if ('problem' in made) throw new Error(made.problem)
  return made.resource
}
const music = { id: 'trk_1', sourceKey: 'tracks/1/original' }

t.test('the program gets the highlight, without what only the operator reads', async (t) => {
  const spec = highlightRender.jobSpec(parsed({ music, priority: 'backfill' }).spec)
  t.strictSame(spec, {
    id: 'hlt_1',
    title: 'Summer',
    showTitle: true,
    items: [{ ...aHighlightItem(), caption: '' }],
    outputPrefix: 'org/o/highlights/1/v1/',
    transition: 'cut',
    orientation: 'auto',
    fill: 'blur',
    kenBurns: true,
    skipBroken: false,
    music,
    renditions: ['360p', '720p', '1080p'],
    segmentSeconds: 6,
    accelerator: 'cpu',
  })
})

t.test('the pod asks for no GPU where there are some, because no highlight uses one', async (t) => {
  const config = { ...programConfig, gpuAvailable: true }
  t.notMatch(JSON.stringify(childJob(highlightRender, parsed(), 1, config)), /nvidia/)
})

t.test('the pod may read its sources and write the highlight and their pieces, nothing else', async (t) => {
  const items = [
    aHighlightItem('a'),
    aHighlightItem('b'),
    { ...aHighlightItem('c'), sourceKey: 'org/o/media/a/original' },
  ]
  const scope = pieceScope(items)
  t.strictSame(highlightRender.grant(parsed({ items, music }).spec), {
    read: ['org/o/media/a/original', 'org/o/media/b/original', 'tracks/1/original'],
    write: ['org/o/highlights/1/v1/', ...['a', 'b', 'c'].map((id) => `org/o/media/${id}/pieces/${scope}`)],
    remove: ['org/o/media/a/pieces/', 'org/o/media/b/pieces/', 'org/o/media/c/pieces/'],
  })
  t.strictSame(highlightRender.grant(parsed().spec).read, ['org/o/media/m1/original'], 'no music')
})

t.test('the largest highlight fits into a grant and into an environment variable', async (t) => {
  const long = (i: number, length: number) => `${i}-`.padEnd(length, 'x')
  const items = Array.from({ length: 30 }, (_, i) => ({
    ...aHighlightItem(long(i, 64)),
    sourceKey: long(i, 512),
    cachePrefix: `${long(i, 511)}/`,
    caption: '🎂'.repeat(200),
  }))
  const { spec } = parsed({ items, music: { id: 'm', sourceKey: long(99, 512) }, title: '"'.repeat(200) })
  t.ok(StoreGrant.safeParse(highlightRender.grant(spec)).success)
  for (const value of [highlightRender.jobSpec(spec), highlightRender.grant(spec)]) {
    t.ok(Buffer.byteLength(JSON.stringify(value)) < 120 * 1024, 'Linux takes 128 KiB, with the name')
  }
})

t.test('a pod that crossfades videos gets space for two of the largest sources', async (t) => {
  const items = (types: string[]) => types.map((type, k) => ({ ...aHighlightItem(`m${k}`), type }))
  const given = (spec: object, scratch: string) => {
    const { template } = childJob(highlightRender, parsed(spec), 1, { ...programConfig, scratch }).spec ?? {}
    const { containers, volumes } = JSON.parse(JSON.stringify(template)).spec
    t.match(volumes[0], { name: 'work', emptyDir: { sizeLimit: containers[0].resources.limits['ephemeral-storage'] } })
    return containers[0].resources.requests['ephemeral-storage']
  }
  const transition = 'crossfade'
  t.equal(given({ transition, items: items(['video', 'image', 'motion']) }, '36Gi'), '28Gi')
  t.equal(given({ transition, items: items(['video', 'video']) }, '24Gi'), '24Gi', 'no more than the operator has')
  t.equal(given({ transition, items: items(['video', 'image', 'image']) }, '36Gi'), '20Gi', 'one video')
  t.equal(given({ transition: 'fade', items: items(['video', 'video']) }, '36Gi'), '20Gi', 'one after the other')
})

t.test('the Job runs the highlight program with memory of its own', async (t) => {
  const size = highlightRender.size(loadConfig(OperatorConfig, operatorEnv({ HIGHLIGHT_MEMORY: '900Mi' })))
  t.strictSame(size, { cpu: '2', cpuBackfill: '500m', memory: '900Mi', memoryMax: '8Gi', scratch: '36Gi' })
  const job = childJob(highlightRender, parsed(), 1, { ...programConfig, ...size })
  const memory = '900Mi'
  t.match(job, {
    metadata: {
      name: /^hr-hlt-1-[0-9a-f]{8}$/,
      labels: { 'app.kubernetes.io/component': 'highlight' },
      annotations: { 'media.keepsake.dev/highlight-render': 'hlt-1' },
      ownerReferences: [{ kind: 'HighlightRender', name: 'hlt-1', uid: 'uid-1', controller: true }],
    },
    spec: {
      template: {
        spec: {
          containers: [
            { command: ['node', 'jobs/highlight/main.js'], resources: { requests: { memory }, limits: { memory } } },
          ],
        },
      },
    },
  })
})
