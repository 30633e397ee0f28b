import type { HighlightItem, HighlightRenderSpec } from '../../crds/highlight-render.ts'
import { HighlightManifest } from '../../lib/contract/highlight-manifest.ts'
import { piecesPrefix } from '../../lib/contract/object-keys.ts'
import { jobBench } from './job-run.ts'

const PREFIX = 'org/o/highlights/h/v1/'

type Item = Pick<HighlightItem, 'id' | 'type' | 'sourceKey' | 'cachePrefix' | 'seconds'> & { caption?: string }

/** A store and the real program, run on it with items. */
export async function highlightBench(t: Parameters<typeof jobBench>[0]) {
  const bench = await jobBench(t, 'highlight', PREFIX)
  const { store } = bench

  const itemOf = (id: string, type: Item['type'], seconds: number): Item => {
    const sourceKey = `org/o/media/${id}/original`
    return { id, type, sourceKey, cachePrefix: piecesPrefix('o', id), seconds }
  }

  type Job = [items: readonly Item[], spec?: Partial<HighlightRenderSpec>, env?: Record<string, string>]
  const specOf = (items: readonly Item[], spec: Partial<HighlightRenderSpec> = {}) => ({
    ...{ id: 'hlt_1', items, outputPrefix: PREFIX, renditions: ['360p'] },
    ...spec,
  })

  return {
    ...bench,
    videoOf: async (path: string, id: string, seconds = 15): Promise<Item> => {
      const item = itemOf(id, 'video', seconds)
      await store.upload(path, item.sourceKey, { contentType: 'video/mp4' })
      return item
    },
    imageOf: async (bytes: Buffer, id: string, seconds = 1): Promise<Item> => {
      const item = itemOf(id, 'image', seconds)
      await store.put(item.sourceKey, bytes, { contentType: 'application/octet-stream' })
      return item
    },
    start: (...[items, spec, env]: Job) => bench.start(specOf(items, spec), env),
    run: (...[items, spec, env]: Job) => bench.run(specOf(items, spec), env),
    manifest: async (prefix = PREFIX): Promise<HighlightManifest> =>
      HighlightManifest.parse(JSON.parse(await bench.text('manifest.json', prefix))),
  }
}
