import { formatId } from '../../../lib/contract/ids.ts'
import { type Commands, idOf, textOf } from '../../command-line/command.ts'
import { LOST, rebuildTimeline } from './commands.ts'

/** Commands of administrators. */
export const timelineCommands: Commands = {
  'timeline rebuild': {
    args: [],
    options: { org: 'string' },
    help: [
      'timeline rebuild [--org ORG]',
      'insert what timelines lack and the database still tells of; an item that exists',
      'stays as it is; one that was interrupted is continued by another',
    ],
    async run({ db }, _, options) {
      const org = textOf(options, 'org')
      const orgId = org === undefined ? undefined : idOf('organization', org)
      const rebuilt = await rebuildTimeline(db, { orgId })
      return {
        rebuilt: rebuilt.map((one) => ({ org_id: formatId('organization', one.orgId), inserted: one.inserted })),
        not_recorded: LOST,
      }
    },
  },
}
