import type { Part } from '../../../support/society.ts'

/** The feed of each user. */
export const part: Part = {
  // The first event of a stream has only a position, in which nothing else may be found.
  ask: () => [{ route: 'followFeed', query: { device_id: 'one' }, want: { type: 'text/event-stream; charset=utf-8' } }],
}
