import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { EXIT } from '../../lib/contract/job-result.ts'
import { outputType } from '../../lib/contract/output-types.ts'
import { type ObjectStore, StoreError } from '../../lib/runtime/object-store/object-store.ts'
import { ObjectTooLarge, readText } from '../../lib/runtime/object-store/read-text.ts'
import { TransientError } from '../runtime/failure.ts'
import { formatMediaPlaylist, type MediaPlaylist, parseMediaPlaylist, type Segment } from './media-playlist.ts'

export const PLAYLIST_TYPE = 'application/vnd.apple.mpegurl'
const AT_ONCE = 4
/** Three times that of four hours in segments of two seconds. */
const MAX_PLAYLIST_BYTES = 2 ** 20

export interface PublishedSegment extends Segment {
  bytes: number
}

export interface Publisher {
  /**
   * Uploads the segments that are complete on disk, then the playlists that list them. May be called at any time. `inspect`
   * sees each segment before it is uploaded, and keeps what it throws for from leaving.
   */
  publishNew(names: readonly string[], inspect?: Inspect): Promise<void>
  /** The same once the encoder has ended: afterwards the playlists carry ENDLIST. */
  publishRest(names: readonly string[]): Promise<void>
  /** The segments of a playlist that clients can see, and that the encoder of now has made. */
  published(name: string): readonly PublishedSegment[]
  /**
   * For an encoder that writes all files again. Segments of the same names and lengths that players know stay listed and are
   * replaced in the store one by one: a playlist may not shrink, and one that is whole stays whole. Where they are other ones,
   * the list begins anew.
   */
  again(): void
  /**
   * Lists what is in the store already, also of other writers. It is no whole yet, and takes the place of none: another
   * attempt, which was taken for dead, may have ended its list.
   */
  list(name: string, segments: readonly Segment[]): Promise<void>
  put(name: string, text: string, contentType: string): Promise<void>
  /** Removes all files that this publisher uploaded, for inputs that turned out to be bad during encoding. */
  withdraw(): Promise<void>
}

/** Is given the playlist of a segment and its file. */
export type Inspect = (name: string, uri: string) => Promise<unknown>

export interface PublisherOptions {
  store: ObjectStore
  prefix: string
  folder: string
  /** No segment is longer, rounded. */
  targetSeconds: number
  signal: AbortSignal
}

/** Uploads the encoder's files in an order in which every listed segment already exists in the store. */
export function openPublisher({ store, prefix, folder, targetSeconds, signal }: PublisherOptions): Publisher {
  /** What the encoder of now has made. */
  const uploaded = new Map<string, PublishedSegment[]>()
  /** The playlists in the store, as this publisher has written them. */
  const listings = new Map<string, { playlist: MediaPlaylist; etag: string }>()
  const keys = new Set<string>()
  const published = (name: string) => uploaded.get(name) ?? []

  async function uploadSegment(name: string, segment: Segment, inspect?: Inspect): Promise<PublishedSegment> {
    await inspect?.(name, segment.uri)
    return { ...segment, bytes: await uploadFile(name, segment.uri) }
  }

  async function uploadFile(name: string, file: string): Promise<number> {
    const path = join(folder, file)
    const { size } = await stat(path)
    keys.add(prefix + file)
    const info = await store.upload(path, prefix + file, { contentType: outputType(file), signal })
    if (info.size !== size) {
      throw new TransientError(EXIT.transient, 'StoreUnavailable', `${name} arrived with ${info.size} of ${size} bytes`)
    }
    return size
  }

  async function put(name: string, text: string, contentType: string): Promise<string> {
    keys.add(prefix + name)
    const { etag } = await store.put(prefix + name, text, { contentType, size: Buffer.byteLength(text), signal })
    return etag
  }

  async function publishOne(name: string, ended: boolean, inspect?: Inspect): Promise<void> {
    const { segments: listed = [], map } = (await readPlaylist(join(folder, `${name}.m3u8`))) ?? {}
    const done = uploaded.get(name) ?? []
    if (listed.length === done.length && !ended) return
    for (let from = done.length; from < listed.length; from += AT_ONCE) {
      const batch = listed.slice(from, from + AT_ONCE)
      done.push(...(await allEnded(batch.map((segment) => uploadSegment(name, segment, inspect)))))
    }
    uploaded.set(name, done)
    if (map !== undefined) await uploadFile(name, map)
    await list(name, done, { ended, map })
  }

  interface Listing {
    ended: boolean
    map: string | undefined
  }

  async function list(name: string, made: readonly Segment[], { ended, map }: Listing): Promise<void> {
    const before = await storedPlaylist(name)
    const rest = ended ? [] : stillListed(before?.playlist.segments ?? [], made, targetSeconds)
    const segments = [...made, ...(rest ?? [])]
    // Players that have a whole list do not ask for it again, and others must not wait for more of it.
    const isWhole = before?.playlist.ended && rest && segments.length === before.playlist.segments.length
    const playlist = { segments, ended: ended || isWhole === true, ...(map !== undefined && { map }) }
    const text = formatMediaPlaylist(playlist, targetSeconds)
    const isSame = before && formatMediaPlaylist(before.playlist, targetSeconds) === text
    const etag = isSame ? before.etag : await put(`${name}.m3u8`, text, PLAYLIST_TYPE)
    listings.set(name, { playlist, etag })
  }

  /** Also that of an encoder before, of an attempt that has died, or of one that was only taken for dead and goes on. */
  async function storedPlaylist(name: string): Promise<{ playlist: MediaPlaylist; etag: string } | undefined> {
    const key = `${prefix}${name}.m3u8`
    const stored = await store.head(key)
    if (!stored) return undefined
    const known = listings.get(name)
    if (known?.etag === stored.etag) return known
    try {
      const playlist = parseMediaPlaylist(await readText(store, key, { maxBytes: MAX_PLAYLIST_BYTES, signal }))
      return playlist && { playlist, etag: stored.etag }
    } catch (error) {
      // The other one may have withdrawn it meanwhile.
      const isGone = error instanceof StoreError && error.code === 'NotFound'
      if (isGone || error instanceof ObjectTooLarge) return undefined
      throw error
    }
  }

  const publishAll = async (names: readonly string[], ended: boolean, inspect?: Inspect) => {
    for (const name of names) await publishOne(name, ended, inspect)
  }

  return {
    publishNew: (names, inspect) => publishAll(names, false, inspect),
    publishRest: (names) => publishAll(names, true),
    published,
    again: () => uploaded.clear(),
    async list(name, segments) {
      const stored = await storedPlaylist(name)
      if (stored?.playlist.ended && stored.playlist.segments.length >= segments.length) return
      await list(name, segments, { ended: false, map: undefined })
    },
    async put(name, text, contentType) {
      await put(name, text, contentType)
    },
    withdraw: async () => {
      for (const key of keys) await store.delete(key)
    },
  }
}

/** Two encoders that cut at the same frames differ by less, also in the sound. */
const SAME_SECONDS = 0.05

/**
 * What players know beyond the segments that were made again. Undefined where these are other ones, or where what was listed
 * is no list that continues them: another program may have written it. The chunks that several pods have made of a rendition
 * are cut like one process would cut it, and have names of their own (`360px3f9a2b1c_00012.ts`). Pure.
 */
export function stillListed(
  known: readonly Segment[],
  made: readonly Segment[],
  targetSeconds: number,
): readonly Segment[] | undefined {
  const [before, after] = [known.slice(0, made.length), known.slice(made.length)]
  const stem = /^(.*)_0{5}\.ts$/.exec(made[0]?.uri ?? '')?.[1]
  const isOf = (uri: string, k: number) => stem !== undefined && isSegment(uri, stem, k)
  const isSame = ({ uri, seconds }: Segment, k: number) =>
    isOf(uri, k) && isOf(made[k]?.uri ?? '', k) && Math.abs(seconds - (made[k]?.seconds ?? 0)) <= SAME_SECONDS
  const continues = ({ uri, seconds }: Segment, k: number) =>
    isOf(uri, made.length + k) && seconds > 0 && Math.round(seconds) <= targetSeconds
  return before.every(isSame) && after.every(continues) ? after : undefined
}

const OF_CHUNK = /^x[0-9a-f]{8}$/

/** Whether a name is that of segment `k`, of a whole pass or of a chunk. */
function isSegment(uri: string, stem: string, k: number): boolean {
  const end = `_${String(k).padStart(5, '0')}.ts`
  if (!uri.startsWith(stem) || !uri.endsWith(end)) return false
  const tag = uri.slice(stem.length, -end.length)
  return tag === '' || OF_CHUNK.test(tag)
}

/** Waits for all, also when one fails: what is still being uploaded could not be withdrawn. */
async function allEnded<T>(uploads: Promise<T>[]): Promise<T[]> {
  await Promise.allSettled(uploads)
  return Promise.all(uploads)
}

/** Undefined until the encoder has written the playlist, which it does atomically, by a rename. */
export async function readPlaylist(path: string): Promise<MediaPlaylist | undefined> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  return text === undefined ? undefined : parseMediaPlaylist(text)
}
