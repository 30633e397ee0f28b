import { formatId } from '../../../lib/contract/ids.ts'
import { type Commands, idOf, textOf } from '../../command-line/command.ts'
import { retryFailed, retryMedia } from './commands.ts'
import { countFailedFor, countFailures } from './queries.ts'

/** Commands of administrators. */
export const mediaCommands: Commands = {
  'media retry': {
    args: ['MEDIA'],
    help: [
      'media retry MEDIA',
      'repeat the failed conversion of a media item, or of both halves of a Live Photo;',
      'or convert an image that was uploaded before images were converted',
    ],
    async run({ db }, [media = '']) {
      const restarted = await retryMedia(db, idOf('media', media))
      return { retried: restarted.map((r) => ({ media_id: formatId('media', r.id), generation: r.generation })) }
    },
  },
  // The form of `media retry` without a media item.
  'media retry --reason': {
    args: [],
    options: { reason: 'string', 'dry-run': 'boolean' },
    help: [
      'media retry --reason REASON [--dry-run]',
      'repeat all conversions that failed for a reason, e.g. StoreUnavailable or',
      'INTERNAL; or only count them',
    ],
    async run({ db }, _, options) {
      const reason = textOf(options, 'reason') ?? ''
      if (options['dry-run']) return { reason, would_retry: await db.read({}, (tx) => countFailedFor(tx, reason)) }
      return { reason, retried: await retryFailed(db, reason) }
    },
  },
  'media failures': {
    args: [],
    help: ['media failures', 'count the failed conversions by reason'],
    async run({ db }) {
      return { failures: await db.read({}, countFailures) }
    },
  },
}
