import { ClusterError, type KubeObject, type ReflectOptions } from './cluster.ts'
import { clusterErrorOf, type KubeStatus, unreachable } from './errors.ts'
import type { KubeHttp } from './http.ts'
import type { ListPage, ReflectSource, WatchEvent } from './reflector.ts'

interface KubeList<T> {
  apiVersion?: string
  kind?: string
  metadata?: { resourceVersion?: string; continue?: string }
  items?: T[] | null
}
type RawEvent<T> = WatchEvent<T> | { type: 'ERROR'; object: KubeStatus }

const PAGE = '500'

/** One page of a collection. Adds apiVersion and kind to the items, which lists omit. */
export async function listPage<T extends KubeObject>(
  http: KubeHttp,
  path: string,
  options: {
    labelSelector?: string | undefined
    fieldSelector?: string | undefined
    token?: string | undefined
    signal?: AbortSignal
  },
): Promise<ListPage<T>> {
  const list = await http.json<KubeList<T>>({
    method: 'GET',
    path,
    query: {
      labelSelector: options.labelSelector,
      fieldSelector: options.fieldSelector,
      limit: PAGE,
      continue: options.token,
    },
    ...(options.signal && { signal: options.signal }),
  })
  const kind = list.kind?.replace(/List$/, '')
  const items = (list.items ?? []).map((o) => ({ ...head(list.apiVersion, kind), ...o }))
  const next = list.metadata?.continue
  return { items, resourceVersion: list.metadata?.resourceVersion ?? '', ...(next && { continue: next }) }
}

const SNAPSHOT_SECONDS = '120'
const isEndOfSnapshot = ({ metadata }: { metadata: { annotations?: Record<string, string> } }) =>
  metadata.annotations?.['k8s.io/initial-events-end'] === 'true'

const head = (apiVersion?: string, kind?: string) => ({ ...(apiVersion && { apiVersion }), ...(kind && { kind }) })

/** A collection of the API server as the source of a reflector. `listFieldSelector` does not apply to the watch. */
export const kubeSource = <T extends KubeObject>(
  http: KubeHttp,
  path: string,
  { labelSelector, listFieldSelector }: Pick<ReflectOptions<T>, 'labelSelector' | 'listFieldSelector'> = {},
): ReflectSource<T> => ({
  list: (token, signal) => listPage(http, path, { labelSelector, fieldSelector: listFieldSelector, token, signal }),
  async *snapshot(signal) {
    const query = {
      labelSelector,
      fieldSelector: listFieldSelector,
      watch: 'true',
      sendInitialEvents: 'true',
      resourceVersionMatch: 'NotOlderThan',
      allowWatchBookmarks: 'true',
      timeoutSeconds: SNAPSHOT_SECONDS,
    }
    const bytes = await http.stream({ method: 'GET', path, query, signal })
    for await (const line of linesOf(bytes)) {
      const event = eventOf<T>(line)
      if (event.type !== 'BOOKMARK') yield event
      else if (isEndOfSnapshot(event.object)) {
        yield event
        return
      }
    }
    throw new ClusterError('Unavailable', 'The list broke off')
  },
  async *watch(resourceVersion, signal) {
    const seconds = 300 + Math.floor(Math.random() * 300) // as in client-go, so that clients do not reconnect together
    const bytes = await http.stream({
      method: 'GET',
      path,
      query: {
        labelSelector,
        watch: 'true',
        resourceVersion,
        allowWatchBookmarks: 'true',
        timeoutSeconds: String(seconds),
      },
      signal,
    })
    for await (const line of linesOf(bytes)) yield eventOf<T>(line)
  },
})

function eventOf<T>(line: string): WatchEvent<T> {
  let event: RawEvent<T>
  try {
    event = JSON.parse(line) as RawEvent<T>
  } catch (error) {
    throw unreachable(error) // the connection broke in the middle of a line
  }
  if (event.type === 'ERROR') throw clusterErrorOf(event.object.code ?? 500, event.object)
  return event
}

const NEWLINE = 10

/** Whole lines, even when a chunk ends inside a line or a character. */
async function* linesOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  let begun: Uint8Array[] = []
  try {
    for await (const chunk of chunks) {
      let from = 0
      for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, from)) {
        const line = Buffer.concat([...begun, chunk.subarray(from, end)])
        begun = []
        from = end + 1
        if (line.length > 0) yield line.toString()
      }
      if (from < chunk.length) begun.push(chunk.subarray(from))
    }
  } catch (error) {
    throw unreachable(error)
  }
}
