import { bareServer } from './bare-server.ts'

/**
 * What the media list is compared with: Express, pg, the same query, and nothing else. With `BARE_SCOPED` the query runs
 * as the API's does, under row-level security in the scope of the organization; without, as a superuser who needs none.
 */
const { BARE_SQL = '', BARE_ORG_FIRST, BARE_SCOPED } = process.env
const { app, pool } = bareServer(BARE_SCOPED ? { options: '-c role=keepsake_api' } : {})

app.get('/v1/api/media/:org', async (req, res) => {
  const { org } = req.params
  const given = [org, Number(req.query['limit']) + 1]
  const params = BARE_ORG_FIRST === 'true' ? given : given.reverse()
  res.json(await (BARE_SCOPED ? readInScope(org, params) : readPlainly(params)))
})

const readPlainly = async (params: unknown[]) => (await pool.query(BARE_SQL, params)).rows

async function readInScope(org: string, params: unknown[]): Promise<unknown[]> {
  if (!/^[0-9a-f-]{36}$/.test(org)) throw new Error('not a uuid')
  const client = await pool.connect()
  try {
    await client.query(`begin read only; set local app.org = '${org}'`)
    const { rows } = await client.query(BARE_SQL, params)
    await client.query('commit')
    return rows
  } finally {
    client.release()
  }
}
