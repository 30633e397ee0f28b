import { bareServer } from './bare-server.ts'

/**
 * What a page of the feed is compared with: Express, pg, and the query of the page under row-level security in the scope
 * of the user. No sign-in, no rules, no links, no entity tag, no log.
 */
const { BARE_SQL = '', BARE_USER = '' } = process.env
const { app, pool } = bareServer({ options: '-c role=keepsake_api' })
if (!/^[0-9a-f-]{36}$/.test(BARE_USER)) throw new Error('not a uuid')
const params: unknown[] = JSON.parse(process.env['BARE_PARAMS'] ?? '[]')

app.get('/feed', async (_, res) => {
  const client = await pool.connect()
  try {
    await client.query(`begin read only; set local app."user" = '${BARE_USER}'`)
    const { rows } = await client.query({ name: 'feed', text: BARE_SQL, values: params })
    await client.query('commit')
    res.json(rows)
  } finally {
    client.release()
  }
})
