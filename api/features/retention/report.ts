import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { createGzip } from 'node:zlib'
import { newUuid, type Uuid } from '../../../lib/contract/ids.ts'
import { retentionReportKey } from '../../../lib/contract/object-keys.ts'
import type { RetentionResult } from '../../../lib/contract/retention.ts'
import { failpoint } from '../../../lib/runtime/failpoint.ts'
import type { Done, Due, ReportLine, RetentionTarget } from '../../retention/target.ts'
import type { RunDeps, Work } from './deps.ts'
import { leaseReport, releaseReport, replaceCounts, resultOf } from './queries.ts'
import type { Watch } from './watch.ts'

const PAGE = 1000
const LEASE_SECONDS = 300
const WAIT_MS = 3000

/**
 * A dry run: writes what the run would do as an object, a line for each item, and leaves everything as it is. One process makes
 * it; the others wait, and take over when that dies.
 */
export async function report({
  deps,
  target,
  run,
  due,
  process,
  watch,
}: Work): Promise<{ ended: RetentionResult['ended']; report?: string }> {
  const { db, signal, waitMs = WAIT_MS } = deps
  const token = newUuid()
  for (;;) {
    if (signal.aborted) return { ended: 'Stopped' }
    watch.beat()
    const { ended } = await db.read({}, (tx) => resultOf(tx, run.run))
    if (ended === 'Finished') return { ended }
    if (await db.inTransaction({}, (tx) => leaseReport(tx, run.run, { token, seconds: LEASE_SECONDS }))) break
    await sleep(waitMs, undefined, { signal }).catch(() => {})
  }
  failpoint('retention.report-leased')
  const done = { moved: 0, purged: 0, bytes: 0 }
  const key = retentionReportKey(run.run)
  try {
    const lines = Readable.from(textOf(deps, target, run.run, { due, token, done, watch }))
    const body = lines.pipe(createGzip())
    lines.once('error', (error) => body.destroy(error))
    await deps.store.put(key, body, { contentType: 'application/gzip', signal })
  } catch (error) {
    await db.inTransaction({}, (tx) => releaseReport(tx, run.run, token))
    if (signal.aborted) return { ended: 'Stopped' }
    throw error
  }
  failpoint('retention.report-written')
  await db.inTransaction({}, (tx) => replaceCounts(tx, { run: run.run, process }, done))
  return { ended: 'Finished', report: key }
}

/** Pages of lines, each read in a short transaction of its own. */
async function* textOf(
  { db }: Pick<RunDeps, 'db'>,
  target: RetentionTarget,
  run: string,
  o: { due: Due; token: Uuid; done: Required<Done>; watch: Watch },
): AsyncGenerator<string> {
  let after: string | undefined
  for (;;) {
    const page = await db.read({}, (tx) => target.list(tx, o.due, { after, limit: PAGE }))
    o.watch.beat()
    for (const line of page.lines) add(o.done, line)
    if (page.lines.length > 0) yield page.lines.map((line) => `${JSON.stringify(line)}\n`).join('')
    if (page.lines.length < PAGE) return
    after = page.last
    const isOurs = await db.inTransaction({}, (tx) => leaseReport(tx, run, { token: o.token, seconds: LEASE_SECONDS }))
    if (!isOurs) throw new Error('another process makes the report')
  }
}

function add(done: Required<Done>, { held, action, bytes }: ReportLine): void {
  if (held) return
  done[action === 'purge' ? 'purged' : 'moved'] += 1
  done.bytes += bytes
}
