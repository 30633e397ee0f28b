import cluster from 'node:cluster'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { openSiblings } from '../../api/processes/siblings.ts'
import { supervise } from '../../api/processes/supervise.ts'
import { lifecycle } from '../../lib/runtime/lifecycle.ts'
import { openLog } from '../../lib/runtime/log.ts'

/**
 * A program of two processes without an API. SIGUSR2 has the supervisor do as its argument says from then on:
 * `no-spawn`: it cannot start processes; `mute`: those that it starts never begin; `ending`: they end at once; `unready`:
 * they are never ready. They say so at GET / of PORT, and SIGUSR1 makes one hang, or end with 7 at SIGTERM.
 */
const [kind = ''] = process.argv.slice(2)
/** How long the supervisor waits for a process to begin, and for one that is known to be mute. */
const [BEGIN_MS, MUTE_MS] = [30_000, 8000]
const log = openLog({ program: 'supervised', isShared: true })

if (cluster.isPrimary) await superviseTwo()
else await serve()

async function superviseTwo(): Promise<void> {
  const life = lifecycle(log, { deadlineMs: 20_000, exit: true })
  let isOn = false
  const patience = { askMs: 1000, maxMissed: 6, beginMs: BEGIN_MS, stopMs: 15_000 }
  const all = supervise({
    count: 2,
    execArgv: process.execArgv,
    patience,
    log,
    onDied() {
      // With those that begin it is patient: a machine may be slow.
      patience.beginMs = isOn && kind === 'mute' ? MUTE_MS : BEGIN_MS
    },
    onGivenUp(why) {
      process.exitCode = 1
      void life.stop(why)
    },
  })
  life.onStop('processes', async () => {
    if (!(await all.stop())) process.exitCode = 1
  })
  const { execPath } = process
  process.on('SIGUSR2', () => {
    isOn = !isOn
    if (kind === 'no-spawn') process.execPath = isOn ? '/nothing' : execPath
    else process.env['KIND'] = isOn ? kind : ''
    log.info({ isOn }, 'switched')
  })
}

async function serve(): Promise<void> {
  const given = process.env['KIND']
  if (given === 'ending') process.exit(3)
  if (given === 'mute') {
    log.info({}, 'mute')
    await sleep(600_000)
  }
  const life = lifecycle(log, { deadlineMs: 10_000, exit: true })
  const siblings = openSiblings(Number(process.env['API_PROCESS']))
  if (!siblings) throw new Error('a process of node:cluster')
  process.on('SIGUSR1', () => {
    if (kind === 'unclean') process.exitCode = 7
    else for (;;);
  })
  const ready = async () => {
    if (given === 'unready') throw new Error('never ready')
  }
  const server = createServer((req, res) => {
    const answer = { '/livez': siblings.alive, '/readyz': siblings.ready }[req.url ?? '']
    const end = (status: number) => res.writeHead(status, { connection: 'close' }).end()
    answer?.().then(
      () => end(200),
      () => end(503),
    )
  })
  await siblings.begin({ ready, metrics: async () => [] })
  await new Promise<void>((resolve) => void server.listen(Number(process.env['PORT']), '127.0.0.1', resolve))
  life.onStop('http', async () => {
    log.info({ process: siblings.number }, 'draining')
    await sleep(300)
  })
  await siblings.join()
}
