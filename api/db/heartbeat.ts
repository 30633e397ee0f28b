import type pg from 'pg'

/** Of an answer of the server; half of it lies between two questions. */
export const PATIENCE_MS = 10_000

/**
 * Asks the server again and again, on a connection that otherwise only waits: one that is cut in silence ends nothing
 * here. Ends it once there is no answer, by its `query_timeout`. Returns what ends the questions.
 */
export function beat(client: pg.Client, patienceMs: number, onSilent: (error: unknown) => void): () => void {
  const beats = setInterval(() => {
    client.query('select').catch((error: unknown) => {
      onSilent(error)
      client.end().catch(() => {})
    })
  }, patienceMs / 2)
  return () => clearInterval(beats)
}
