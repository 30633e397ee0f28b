import type { Test } from 'tap'
import { Missing } from './tools.ts'

/** Runs a test that needs tools: skipped with the reason where one is missing, failed where all of them should be there. */
export async function skipping(t: Pick<Test, 'test' | 'fail'>, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    if (!(error instanceof Missing)) throw error
    if (process.env['CI'] === 'true') t.fail(error.message)
    else await t.test('not run', { skip: error.message }, () => {})
  }
}
