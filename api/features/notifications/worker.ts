import type { FeatureWorker, FeatureWorkerDeps } from '../../worker/feature-worker.ts'
import type { GaugeOfRows } from '../../worker/metrics.ts'
import { sweepTarget } from '../../worker/sweep-target.ts'
import type { Channel, ChannelPart } from './channel.ts'
import { CHANNELS } from './channels.ts'
import { type Compose, composer } from './compose.ts'
import { notificationConsumer } from './consumer.ts'
import {
  countPaused,
  countPausedReceivers,
  deleteOldPauses,
  giveUpOld,
  oldestPendingSeconds,
  suppressPending,
} from './delivery-queries.ts'
import { DEFAULT, deleteOldNotifications } from './retention-queries.ts'
import { oldNotifications } from './retention-target.ts'
import { type Sender, startSender } from './sender.ts'
import type { NotificationSettings } from './settings.ts'

const GIVE_UP_DAYS = 3
const BATCH = 1000

export function notificationWorker(deps: FeatureWorkerDeps<NotificationSettings>): FeatureWorker {
  const parts = CHANNELS.map((open) => open({ ...deps, settings: deps.config }))
  return workerOf(deps, parts, composerOf(deps.config))
}

/** Undefined where the settings make no links. */
function composerOf({ PUBLIC_URL, LINK_KEYS, ...settings }: NotificationSettings): Compose | undefined {
  return PUBLIC_URL === undefined || LINK_KEYS === undefined
    ? undefined
    : composer({ ...settings, PUBLIC_URL, LINK_KEYS })
}

type Deps = Pick<FeatureWorkerDeps, 'db' | 'log' | 'counterOf' | 'opened'>

/** Exported for tests, which bring their own channels. */
export function workerOf(deps: Deps, given: readonly ChannelPart[], compose: Compose | undefined): FeatureWorker {
  const parts = compose ? given : given.map(withoutLinks)
  const attempts = deps.counterOf({
    name: 'notification_attempts_total',
    help: 'Attempts to send a notification, by channel and outcome; `suppressed` ones were not made',
    labels: ['channel', 'outcome'],
  })
  const onAttempt = (channel: string, outcome: string) => attempts(1, { channel, outcome })
  let senders: readonly Sender[] = []
  let isStopping = false
  // A database that was restored may hold mails for people who were erased since the backup.
  void deps.opened.then((isOpen) => {
    if (!isOpen || isStopping || !compose) return
    senders = parts.filter(isOn).map((part) => startSender({ ...deps, compose, onAttempt }, part))
  })
  const wake = () => senders.forEach((sender) => void sender.wake())
  return {
    consumers: [notificationConsumer(parts, wake)],
    channels: { notifications: wake },
    tasks: [
      { name: 'notifications', run: () => tidy(deps, parts) },
      { name: 'old-notifications', order: 'purges', run: (_, signal) => deleteOld(deps, signal) },
    ],
    gauges: GAUGES,
    async stop() {
      isStopping = true
      await Promise.all(senders.map((sender) => sender.stop()))
    },
  }
}

const isOn = (part: ChannelPart): part is ChannelPart & { channel: Channel } => part.channel !== undefined

const withoutLinks = (part: ChannelPart): ChannelPart => ({
  ...part,
  channel: undefined,
  offReason: part.channel ? 'PUBLIC_URL and LINK_KEYS are not configured' : part.offReason,
})

async function tidy({ db }: Deps, parts: readonly ChannelPart[]): Promise<void> {
  await db.inTransaction({}, async (tx) => {
    for (const part of parts) if (!part.channel) await suppressPending(tx, part.name, part.offReason)
    await giveUpOld(tx, GIVE_UP_DAYS)
    await deleteOldPauses(tx)
  })
}

async function deleteOld(deps: Deps, signal: AbortSignal): Promise<void> {
  await sweepTarget(deps, oldNotifications, DEFAULT, async ({ due, mayClaim }) => {
    const deleteSome = () =>
      deps.db.inTransaction({}, async (tx) => ((await mayClaim(tx)) ? deleteOldNotifications(tx, due, BATCH) : 0))
    while (!signal.aborted && (await deleteSome()) === BATCH);
  })
}

const GAUGES: readonly GaugeOfRows[] = [
  {
    name: 'notifications_oldest_due_seconds',
    help: 'How long the oldest delivery has been due; NaN when the database does not answer',
    read: oldestPendingSeconds,
  },
  {
    name: 'notification_channels_paused',
    help: 'Channels that cannot send anything at the moment; NaN when the database does not answer',
    read: countPaused,
  },
  {
    name: 'notification_receivers_paused',
    help: 'Webhooks, devices and push services that rest after failures; NaN when the database does not answer',
    read: countPausedReceivers,
  },
]
