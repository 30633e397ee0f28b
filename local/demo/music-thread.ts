import { parentPort, workerData } from 'node:worker_threads'
import { sampleTracks } from './sample-music.ts'

// A thread of its own: computing the music takes seconds, in which the platform would answer nothing.
parentPort?.postMessage(await sampleTracks(workerData as string))
