import './report.ts'
import type { AddressInfo } from 'node:net'
import express from 'express'
import pg from 'pg'

/**
 * Express and pg, the very statements of one operation of the API, and nothing else: no sign-in, no schemas, no limits, no
 * log. `BARE_STATEMENTS` has them by transaction. Values that begin with $ come from the body of the request.
 */
const { DATABASE_URL, BARE_STATEMENTS = '[]' } = process.env
const transactions = JSON.parse(BARE_STATEMENTS) as { text: string; values?: unknown[]; name?: string }[][]
const pool = new pg.Pool({ connectionString: DATABASE_URL, max: 10, options: '-c role=keepsake_api -c timezone=UTC' })
const app = express()
app.use(express.json())
app.post('/', async (req, res) => {
  const given: Record<string, string> = { ...req.body, $new: crypto.randomUUID() }
  let rows: unknown[] = []
  for (const statements of transactions) {
    const client = await pool.connect()
    for (const { values, ...statement } of statements) {
      const filled = values?.map((value) => given[String(value)] ?? value)
      const result = await client.query(filled ? { ...statement, values: filled } : statement.text)
      if (result.rows?.length > 0) rows = result.rows
    }
    client.release()
  }
  res.json(rows)
})
const server = app.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as AddressInfo
  process.stdout.write(`{"publicUrl":"http://127.0.0.1:${port}"}\n`)
})
process.once('SIGTERM', () => process.exit(0))
