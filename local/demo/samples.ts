import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { removeDrafts } from './sample-file.ts'
import { type SampleTrack, sampleTracks } from './sample-music.ts'
import { type SamplePhotos, samplePhotos } from './sample-photos.ts'
import { sampleVideo } from './sample-video.ts'

/** What the demo uploads, as soon as it is made. */
export interface Samples {
  photos: Promise<SamplePhotos>
  video: Promise<string>
  tracks: Promise<SampleTrack[]>
  /** Ends what is being made; resolves when nothing of it is left. */
  close(): Promise<void>
}

/**
 * Makes the samples that are missing in `folder`, in the background. One after another, as each of them can use every
 * processor, and in the order in which they are seen. `own` replaces the video.
 */
export function makeSamples(folder: string, own: string | undefined): Samples {
  const ending = new AbortController()
  const { signal } = ending
  const photos = removeDrafts(folder).then(() => samplePhotos(folder, signal))
  const video = own === undefined ? after(photos, () => videoIn(folder, signal)) : Promise.resolve(own)
  const tracks = after(Promise.allSettled([photos, video]), () => tracksAside(folder, signal))
  const all = Promise.allSettled([photos, video, tracks])
  return {
    photos,
    video,
    tracks,
    async close() {
      ending.abort()
      await all
    },
  }
}

/** Whatever became of the one before. */
const after = <T>(before: Promise<unknown>, work: () => Promise<T>) => before.then(work, work)

async function videoIn(folder: string, signal: AbortSignal): Promise<string> {
  const path = join(folder, 'into-the-fractal.mp4')
  await sampleVideo(path, signal)
  return path
}

/** The sample tracks, those that are missing computed in a thread, until `signal` is aborted. */
export const tracksAside = (folder: string, signal: AbortSignal): Promise<SampleTrack[]> =>
  sampleTracks(folder, signal, (index) => performedAside(index, signal))

function performedAside(index: number, signal: AbortSignal): Promise<Float32Array> {
  const thread = new Worker(new URL('music-thread.ts', import.meta.url), { workerData: index })
  signal.addEventListener('abort', () => void thread.terminate(), { once: true })
  return new Promise((resolve, reject) => {
    thread.once('message', resolve)
    thread.once('error', reject)
    thread.once('exit', () => reject(new Error('the music was interrupted')))
  })
}
