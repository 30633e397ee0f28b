import './report.ts'
import type { AddressInfo } from 'node:net'
import express from 'express'
import pg from 'pg'

/** For routes that take a body. */
export const json = express.json()

/** Express and pg, and nothing else: what the API is compared with. Add the routes at once. */
export function bareServer(options: pg.PoolConfig = {}) {
  const pool = new pg.Pool({
    connectionString: process.env['DATABASE_URL'],
    max: Number(process.env['DATABASE_CONNECTIONS'] ?? 10),
    ...options,
  })
  const app = express()
  const server = app.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo
    process.stdout.write(`{"publicUrl":"http://127.0.0.1:${port}"}\n`)
  })
  process.once('SIGTERM', () => process.exit(0))

  /** Runs the statements of `work` in a transaction. */
  async function inTransaction<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
    const client = await pool.connect()
    try {
      await client.query('begin')
      const result = await work(client)
      await client.query('commit')
      return result
    } finally {
      client.release()
    }
  }
  return { app, pool, inTransaction }
}
