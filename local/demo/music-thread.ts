import { parentPort, workerData } from 'node:worker_threads'
import { perform } from './sample-music.ts'

// A thread of its own: computing the music takes seconds, in which the platform would answer nothing.
parentPort?.postMessage(perform(workerData as number))
