import './report.ts'
import type { AddressInfo } from 'node:net'
import express from 'express'
import pg from 'pg'

/** What the media list is compared with: Express, pg, the same query, and nothing else. */
const { DATABASE_URL, BARE_SQL = '', BARE_ORG_FIRST } = process.env
const pool = new pg.Pool({ connectionString: DATABASE_URL, max: Number(process.env['DATABASE_CONNECTIONS'] ?? 10) })
const app = express()
app.get('/v1/api/media/:org', async (req, res) => {
  const given = [req.params.org, Number(req.query['limit']) + 1]
  const { rows } = await pool.query(BARE_SQL, BARE_ORG_FIRST === 'true' ? given : given.reverse())
  res.json(rows)
})
const server = app.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  process.stdout.write(`{"publicUrl":"http://127.0.0.1:${port}"}\n`)
})
process.once('SIGTERM', () => process.exit(0))
