import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { SAMPLE_TITLES } from './demo/sample-music.ts'
import { tracksAside } from './demo/samples.ts'
import { offerFirstTracks } from './demo/tracks.ts'
import { startPlatform } from './platform.ts'
import { endAtOnce, runUntilSignal } from './until-signal.ts'

// Files that this process and its children create are readable by this user only.
process.umask(0o077)

/** `npm start [-- --data folder] [--port n] [--confirm-retention]`: the platform alone, until Ctrl-C. */
const { values } = parseArgs({
  options: {
    data: { type: 'string', default: '.keepsake' },
    port: { type: 'string' },
    'free-ports': { type: 'boolean', default: false },
    'confirm-retention': { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  console.log(
    'npm start -- [--data folder] [--port number] [--free-ports] [--confirm-retention]\n\nRuns Keepsake on this machine. Data is kept in the folder (.keepsake).',
  )
  process.exit(0)
}

await runUntilSignal(async (onStop, stopped) => {
  const started = performance.now()
  const starting = startPlatform({
    folder: values.data,
    port: portOf(values.port),
    usualPorts: !values['free-ports'],
    onFatal: endAtOnce,
    confirmRetention: values['confirm-retention'],
    onNotice: (text) => console.error(text),
    onStatus: (text) => console.log(`  starting ${text}`),
  })
  // Registered before the platform has started: Ctrl-C during the start waits for it, then stops everything.
  onStop(() =>
    starting.then(
      (platform) => platform.close(),
      () => undefined,
    ),
  )
  const platform = await starting
  // It is about to close: there is nothing to say, and nothing to begin.
  if (stopped.aborted) return 'done'
  const { demo, page } = platform
  // In the background. The next start does what is left of it.
  const ending = new AbortController()
  const place = { database: demo.database_url, objects: join(platform.folder, 'objects') }
  const make = () => tracksAside(join(platform.folder, 'samples'), ending.signal)
  const music = offerFirstTracks(place, SAMPLE_TITLES, make).catch((error: unknown) => {
    if (!ending.signal.aborted) console.error(`The sample music cannot be offered: ${(error as Error).message}`)
  })
  onStop(() => {
    ending.abort()
    return music
  })
  console.log(`
Keepsake is running (${((performance.now() - started) / 1000).toFixed(1)} s).

  page        ${page.link()}
  API         ${demo.base_url}
  reference   ${demo.public_url}/docs
  accounts    ${platform.folder}/demo.json
  log         ${platform.logFile}

Ctrl-C stops it.`)
  return 'stay'
})

function portOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const port = Number(text)
  if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new Error(`--port ${text} is not a port number`)
  return port
}
