import { join } from 'node:path'
import { workerData } from 'node:worker_threads'
import { SAMPLE_TITLES, sampleTracks } from './sample-music.ts'
import { offerFirstTracks } from './tracks.ts'

// A thread of its own: computing the music takes seconds, in which the platform would answer nothing.
const { database, folder } = workerData as { database: string; folder: string }
const place = { database, objects: join(folder, 'objects') }
await offerFirstTracks(place, SAMPLE_TITLES, () => sampleTracks(join(folder, 'samples')))
