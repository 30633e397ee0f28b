import { bigint, pgTable } from '../orm.ts'
import { id } from './columns.ts'

/** Only `bump_feed` writes this table. */
export const feedVersions = pgTable('feed_versions', {
  orgId: id('organization').primaryKey(),
  n: bigint({ mode: 'number' }).notNull().default(1),
})
