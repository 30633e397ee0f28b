import * as z from 'zod'
import { runCommandLine } from '../../api/command-line.ts'
import { storeEnvironment } from '../environment.ts'
import type { SampleTrack } from './sample-music.ts'

const Track = z.object({ music_track_id: z.string(), title: z.string(), retired: z.boolean() })
const Tracks = z.object({ tracks: z.array(Track) })

/** Where `cli.js` finds the database and the folder of objects of a platform on this machine. */
export interface Place {
  database: string
  objects: string
}

/** Adds music tracks as an administrator would, unless they were added before. Returns the id of the first one. */
export async function offerTracks(place: Place, tracks: readonly SampleTrack[]): Promise<string | undefined> {
  const known = new Map((await tracksOf(place)).map((track) => [track.title, track]))
  for (const { path, title, license, attribution } of tracks) {
    if (known.has(title)) continue
    const texts = ['--title', title, '--license', license, '--attribution', attribution]
    known.set(title, Track.parse(await command(place, 'track', 'add', path, ...texts)))
  }
  return tracks.map(({ title }) => known.get(title)).find((track) => track && !track.retired)?.music_track_id
}

/**
 * Adds the samples called `titles`, which `make` makes, to a library that has no other tracks: an administrator's choice
 * stays as it is, and a sample that was retired is not added again. Can be repeated and interrupted.
 */
export async function offerFirstTracks(place: Place, titles: readonly string[], make: () => Promise<SampleTrack[]>) {
  const known = new Set((await tracksOf(place)).map(({ title }) => title))
  const isOurs = [...known].every((title) => titles.includes(title))
  if (isOurs && known.size < titles.length) await offerTracks(place, await make())
}

const tracksOf = async (place: Place) => Tracks.parse(await command(place, 'track', 'list')).tracks

async function command({ database, objects }: Place, ...args: string[]): Promise<unknown> {
  const env = { DATABASE_URL: database, ...storeEnvironment(objects) }
  let [out, err] = ['', '']
  const terminal = {
    out: (text: string) => {
      out += text
    },
    err: (text: string) => {
      err += text
    },
  }
  if ((await runCommandLine(args, terminal, env)) !== 0) throw new Error(`${args.join(' ')}: ${err.trim()}`)
  return JSON.parse(out)
}
