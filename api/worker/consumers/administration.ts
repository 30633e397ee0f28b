import { setTimeout as sleep } from 'node:timers/promises'
import { formatId, parseId, type Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { insertAudit } from '../../audit/queries.ts'
import { type Commands, idOf, textOf } from '../../command-line/command.ts'
import type { Database, Tx } from '../../db/db.ts'
import {
  findParkedMessage,
  listFailed,
  type Requested,
  requestReplays,
  stillParked,
  wakeReplay,
} from './administration-queries.ts'
import { forgetSuspicion, type ListedMessage, timeOf, unpark } from './queries.ts'

const MAX_LISTED = 200
const REQUESTED_AT_ONCE = 100
/** How long a replay is waited for: the workers go on without the command. */
const PATIENCE_MS = 10_000
const LOOK_MS = 50

/** Commands of administrators about events that a consumer could not handle. */
export const deadLetterCommands: Commands = {
  'dead-letters list': {
    args: [],
    options: { consumer: 'string' },
    help: [
      'dead-letters list [--consumer CONSUMER]',
      `show the latest ${MAX_LISTED} events that a consumer could not handle, and how many later events`,
      'of the same aggregate wait behind each',
    ],
    async run({ db }, _, options) {
      const rows = await db.read({}, (tx) =>
        listFailed(tx, { consumer: textOf(options, 'consumer'), limit: MAX_LISTED }),
      )
      return { dead_letters: rows.map(shown) }
    },
  },
  'dead-letters show': {
    args: ['MESSAGE'],
    help: ['dead-letters show MESSAGE', 'show such an event whole; it may contain personal data'],
    async run({ db }, [message = '']) {
      const rows = await findOrFail(db, idOf('message', message))
      return { dead_letters: rows.map((row) => ({ ...shown(row), event: row.event })) }
    },
  },
  'dead-letters replay': {
    args: ['MESSAGE'],
    help: [
      'dead-letters replay MESSAGE',
      'have the worker handle such an event again, and then those that wait behind it;',
      `waits ${PATIENCE_MS / 1000} seconds for the result`,
    ],
    async run({ db }, [message = '']) {
      const messageId = idOf('message', message)
      const rows = await findOrFail(db, messageId)
      const behind = rows.find((row) => row.firstId !== messageId)
      if (behind && rows.every((row) => row.firstId !== messageId))
        throw new Problem(
          'CONFLICT',
          `It waits behind ${formatId('message', behind.firstId)} of the same aggregate: replay that one`,
        )
      return replay(db, { messageId })
    },
  },
  // The form of `dead-letters replay` without a message.
  'dead-letters replay --consumer': {
    args: [],
    options: { consumer: 'string' },
    help: ['dead-letters replay --consumer CONSUMER', 'the same with all events that the consumer could not handle'],
    run: ({ db }, _, options) => replay(db, { consumer: textOf(options, 'consumer') ?? '' }),
  },
  'dead-letters drop': {
    args: ['MESSAGE'],
    help: [
      'dead-letters drop MESSAGE',
      'give such an event up: for each consumer that could not handle it, it counts as handled,',
      'without its effects; what waits behind it follows',
    ],
    run: ({ db }, [message = '']) => drop(db, idOf('message', message)),
  },
}

async function findOrFail(db: Database, messageId: Uuid): Promise<ListedMessage[]> {
  const rows = await db.read({}, (tx) => findParkedMessage(tx, messageId))
  if (rows.length === 0) throw new Problem('NOT_FOUND', 'No consumer has parked such an event')
  return rows
}

const shown = (row: ListedMessage) => ({
  id: formatId('message', row.messageId),
  consumer: row.consumer,
  subject: row.subject,
  sequence: row.streamSeq,
  reason: row.reason,
  attempts: row.attempts,
  parked_at: row.firstAt,
  last_attempt_at: row.lastAt,
  replay_requested_at: row.replayAt,
  waits_for: row.firstId === row.messageId ? null : formatId('message', row.firstId),
  behind: row.behind,
})

export type Chosen = { messageId: Uuid } | { consumer: string }

/**
 * Has the worker try again what was parked before now: what fails again meanwhile is not repeated. Each batch is a
 * transaction with its audit entries, so a command that is interrupted can be given again.
 */
export async function replay(db: Database, chosen: Chosen, patienceMs = PATIENCE_MS): Promise<object> {
  const before = await db.read({}, timeOf)
  const requested: Requested[] = []
  while (true) {
    const some = await db.inTransaction({}, (tx) => requestBatch(tx, chosen, before))
    requested.push(...some)
    if (some.length < REQUESTED_AT_ONCE) break
  }
  return outcomeOf(db, requested, patienceMs)
}

async function requestBatch(tx: Tx, chosen: Chosen, before: string): Promise<Requested[]> {
  const requested = await requestReplays(tx, { ...chosen, before, limit: REQUESTED_AT_ONCE })
  for (const one of requested) await audit(tx, 'replay event', one)
  // Also without a new request: a notification may have been lost.
  await wakeReplay(tx)
  return requested
}

const audit = (tx: Tx, operation: 'replay event' | 'drop event', { messageId, consumer, orgId }: Requested) =>
  insertAudit(tx, {
    orgId,
    actorId: null,
    action: 'ADMIN_ACTION',
    resourceType: 'message',
    resourceId: messageId,
    result: 'success',
    context: null,
    details: { operation, consumer },
  })

/** A worker that is about to handle it finds no row any more, or has handled it before: then it is not dropped. */
async function drop(db: Database, messageId: Uuid): Promise<object> {
  const rows = await findOrFail(db, messageId)
  const [waiting] = rows
  const failed = rows.filter(({ reason }) => reason !== null)
  if (waiting && failed.length === 0)
    throw new Problem('CONFLICT', `It only waits behind ${formatId('message', waiting.firstId)} of the same aggregate`)
  const dropped = await db.inTransaction({}, async (tx) => {
    const gone: string[] = []
    for (const { consumer, event } of failed) {
      if (!(await unpark(tx, consumer, messageId))) continue
      await forgetSuspicion(tx, consumer, [{ messageId }])
      await audit(tx, 'drop event', { messageId, consumer, orgId: orgOf(event) })
      gone.push(consumer)
    }
    await wakeReplay(tx)
    return gone
  })
  return { dropped }
}

function orgOf(event: unknown): Uuid | null {
  const given = typeof event === 'object' && event !== null && 'org_id' in event ? event.org_id : undefined
  return (typeof given === 'string' && parseId('organization', given)) || null
}

/** `waiting`: the worker has not got to them yet. */
async function outcomeOf(db: Database, requested: readonly Requested[], patienceMs: number): Promise<object> {
  const until = performance.now() + patienceMs
  while (true) {
    const parked = await db.read({}, (tx) => stillParked(tx, requested))
    const waiting = parked.filter(({ isRequested }) => isRequested)
    if (waiting.length > 0 && performance.now() < until) {
      await sleep(LOOK_MS)
      continue
    }
    const failed = parked.filter(({ isRequested }) => !isRequested)
    return {
      requested: requested.length,
      handled: requested.length - parked.length,
      failed: failed.map(({ messageId, consumer, reason }) => ({
        id: formatId('message', messageId),
        consumer,
        reason,
      })),
      waiting: waiting.length,
    }
  }
}
