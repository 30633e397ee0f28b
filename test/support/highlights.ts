import { RENDERS } from '../../api/features/highlights/render/kind.ts'
import { highlightRenderName } from '../../api/features/highlights/render/render-spec.ts'
import { startAdmitted } from '../../api/worker/runs/start.ts'
import { HIGHLIGHT_RENDERS, type HighlightRender } from '../../crds/highlight-render.ts'
import type { RunStatus } from '../../crds/run.ts'
import type { HighlightManifest } from '../../lib/contract/highlight-manifest.ts'
import { formatId, newUuid } from '../../lib/contract/ids.ts'
import { manifestKey, masterKey, renderPrefix } from '../../lib/contract/object-keys.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import { albumWorld } from './albums.ts'
import { type Answer, type Person, type TestApi, uuidOf } from './api.ts'
import { aManifest, NAMESPACE } from './conversion-world.ts'
import { quietLog } from './quiet-log.ts'

/** Highlights of the first organization of a test, with its albums. Ids are those of the wire. */
export function highlightWorld(api: TestApi) {
  const { org, people, call, database } = api
  const albums = albumWorld(api)
  const { sql, orgId } = albums
  const HIGHLIGHTS = `/api/media/${org}/highlights`

  const create = (json: object, who: Person = people.member, headers: Record<string, string> = {}) =>
    call(who, 'POST', HIGHLIGHTS, { json: { title: 'Summer', ...json }, headers })
  const createInAlbum = (album: string, json: object, who: Person = people.member) =>
    call(who, 'POST', `/api/orgs/${org}/albums/${album}/highlights`, { json: { title: 'Summer', ...json } })
  const createInEvent = (event: string, json: object, who: Person = people.member) =>
    call(who, 'POST', `/api/orgs/${org}/events/${event}/highlights`, { json: { title: 'Summer', ...json } })
  const get = (id: string, who: Person = people.member) => call(who, 'GET', `${HIGHLIGHTS}/${id}`)
  const remove = (id: string, who: Person = people.member) => call(who, 'DELETE', `${HIGHLIGHTS}/${id}`)
  const list = async (who: Person = people.member): Promise<string[]> => {
    const { data } = await call(who, 'GET', `${HIGHLIGHTS}?limit=100`)
    return data.highlights.map(({ highlight_id }: { highlight_id: string }) => highlight_id)
  }

  /** A highlight of `member`, of media items that are new unless given. */
  async function aHighlight(o: { media?: string[]; who?: Person; json?: object } = {}): Promise<string> {
    const media_ids = o.media ?? [await albums.aMedia()]
    const made = await create({ media_ids, ...o.json }, o.who)
    if (made.status !== 201) throw new Error(`a highlight: ${made.status} ${made.code}`)
    return made.data.highlight_id
  }

  /** A media item whose conversion has found out what the file says. */
  async function converted(
    o: { kind?: 'image' | 'video'; durationSec?: number; capturedAt?: string; by?: Person } = {},
  ): Promise<string> {
    const { kind = 'video', durationSec, capturedAt = null, ...rest } = o
    const id = await albums.aMedia({ kind, ...rest })
    const source = { ...(durationSec !== undefined && { durationSec }), capturedAt }
    await sql('update media set manifest = $2 where id = $1', [uuidOf('media', id), { type: kind, source }])
    return id
  }

  async function aTrack(o: { title?: string; retired?: boolean } = {}): Promise<string> {
    const id = newUuid()
    await sql(
      `insert into music_tracks (id, title, license, attribution, duration_sec, mime_type, file_size_bytes, retired_at)
        values ($1, $2, 'CC0', 'Ann', 30, 'audio/mpeg', 1, case when $3 then now() end)`,
      [id, o.title ?? 'Waves', o.retired ?? false],
    )
    return formatId('track', id)
  }

  const itemsOf = (id: string) =>
    sql(
      `select media_id, source_id, type, seconds, caption from highlight_items where highlight_id = $1 order by position`,
      [uuidOf('highlight', id)],
    )
  const announced = async (id: string): Promise<string[]> =>
    (
      await sql('select type from outbox where aggregate_id = $1 order by aggregate_version', [uuidOf('highlight', id)])
    ).map(({ type }) => type)
  const code = ({ status, code }: Answer) => code ?? status

  return {
    ...albums,
    owner: people.owner,
    removeFromAlbum: albums.remove,
    ...{ HIGHLIGHTS, orgId, database, create, createInAlbum, createInEvent, get, remove, list, aHighlight, converted },
    ...{ aTrack, itemsOf, announced, code },
  }
}

type HighlightWorld = ReturnType<typeof highlightWorld>

/** What the cluster does with the highlights of a test, in which nobody acts but the test. */
export function renderWorld(api: Pick<TestApi, 'store' | 'database'>, world: HighlightWorld, cluster: Cluster) {
  const { orgId, sql } = world
  const { store, database } = api
  const deps = { db: database.worker, store, cluster, namespace: NAMESPACE, log: quietLog() }
  const uuid = (id: string) => uuidOf('highlight', id)
  const keyOf = (id: string) => ({
    namespace: NAMESPACE,
    name: highlightRenderName({ id: uuid(id), generation: 1 }),
  })
  const prefixOf = (id: string) => renderPrefix(orgId, uuid(id), 1)

  /** A highlight with a slot of its organization, and without a HighlightRender. */
  async function admitted(o: Parameters<HighlightWorld['aHighlight']>[0] = {}): Promise<string> {
    const id = await world.aHighlight(o)
    await sql('update highlights set render_admitted_at = now() where id = $1', [uuid(id)])
    return id
  }

  return {
    deps,
    admitted,
    keyOf,
    prefixOf,
    /** An admitted highlight, and the HighlightRender that the worker makes for it. */
    async rendering(o: Parameters<HighlightWorld['aHighlight']>[0] = {}): Promise<string> {
      const id = await admitted(o)
      await startAdmitted(deps, RENDERS, uuid(id))
      return id
    },
    render: (id: string) => cluster.get<HighlightRender & { metadata: { name: string } }>(HIGHLIGHT_RENDERS, keyOf(id)),
    show: (id: string, status: RunStatus) => cluster.applyStatus(HIGHLIGHT_RENDERS, keyOf(id), status, 'test'),
    /** What a job program leaves when it is done. */
    async writeOutput(id: string, change: Partial<HighlightManifest> = {}): Promise<void> {
      const { media_ids } = (await world.get(id, world.owner)).data
      const manifest = { ...aHighlightManifest(id, media_ids), ...change }
      await store.put(masterKey(prefixOf(id)), '#EXTM3U', { contentType: 'application/vnd.apple.mpegurl' })
      await store.put(manifestKey(prefixOf(id)), JSON.stringify(manifest), { contentType: 'application/json' })
    },
    async row(id: string) {
      const [row] = await sql('select * from highlights where id = $1', [uuid(id)])
      return row
    },
    generated: async (id: string): Promise<number> =>
      (await world.announced(id)).filter((type) => type === 'HighlightGenerated').length,
  }
}

export const aHighlightManifest = (id: string, mediaIds: string[]): HighlightManifest => {
  const { hls, accelerator, createdAt } = aManifest(newUuid())
  return {
    version: 1,
    id,
    type: 'highlight',
    createdAt,
    accelerator,
    hls: { ...hls, durationSec: mediaIds.length * 4 },
    images: {
      webp: { file: 'image.webp', width: 4, height: 3, bytes: 100 },
      thumb: { file: 'thumb.webp', width: 4, height: 3, bytes: 100 },
      placeholder: 'AAAA',
    },
    items: mediaIds.map((media, i) => ({ id: media, startSec: i * 4, seconds: 4 })),
    skipped: [],
    encode: { wallSeconds: 4, speed: 3, reused: 0 },
  }
}
