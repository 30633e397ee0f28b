import pg from 'pg'
import { browserFolder, noBrowser, openPage, type PageUnderTest } from './browser.ts'
import { testDatabase } from './database.ts'
import { whileHeld } from './while-held.ts'

type Page = PageUnderTest['page']

export interface TwoPeople {
  under: PageUnderTest
  /** The page of the first person. */
  ann: Page
  /** The page of the second person, in a browser of their own. */
  bob: Page
  folder: string
  /** Runs a statement on the database of the platform. */
  query(sql: string, values?: unknown[]): Promise<void>
  /** No highlight of the organization (a UUID) starts while `work` runs: the worker waits for the row of the organization. */
  whileRendersWait(orgId: string, work: () => Promise<void>): Promise<void>
}

/**
 * The demo page in two browsers, against one platform on a database of its own, until the end of the test file. A machine
 * without a browser skips the file. `rateFactor` multiplies the limits of requests; `script` runs in both pages before
 * their own; `moves` as for `openPage`.
 */
export async function openForTwoPeople(
  t: Parameters<typeof browserFolder>[0] & Parameters<typeof testDatabase>[0] & { plan(count: 0, why: string): void },
  { rateFactor = 3, script = '', moves = false } = {},
): Promise<TwoPeople> {
  if (noBrowser) {
    t.plan(0, noBrowser)
    process.exit()
  }
  const folder = await browserFolder(t)
  const { url: database } = await testDatabase(t)
  process.env['KEEPSAKE_DATABASE_URL'] = database
  // Both people come from one address, and are quicker than people.
  process.env['RATE_LIMIT_FACTOR'] = String(rateFactor)
  const under = await openPage({ folder, script, moves })
  t.teardown(() => under.close())
  const query = async (sql: string, values: unknown[] = []) => {
    const client = new pg.Client({ connectionString: database })
    await client.connect()
    try {
      await client.query(sql, values)
    } finally {
      await client.end()
    }
  }
  const whileRendersWait = async (orgId: string, work: () => Promise<void>) => {
    const admin = new pg.Pool({ connectionString: database, max: 1 })
    try {
      const lock = { text: 'select from organizations where id = $1 for no key update', values: [orgId] }
      await whileHeld({ admin }, lock, work)
    } finally {
      await admin.end()
    }
  }
  return { under, ann: under.page, bob: await under.openAnother(), folder, query, whileRendersWait }
}

export const button = (page: Page, name: string | RegExp) => page.getByRole('button', { name, exact: true })

/** As if the person had come back to the window. */
export const lookAgain = (page: Page) => page.evaluate(`document.dispatchEvent(new Event('visibilitychange'))`)

/** By how many pixels the page is wider than the window. */
export const overflow = (page: Page) =>
  page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth')
