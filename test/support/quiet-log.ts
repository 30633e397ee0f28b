import { type Log, openLog } from '../../lib/runtime/log.ts'

/** For programs whose warnings are what the test provokes. */
export const quietLog = (): Log => openLog({ program: 'test', level: process.env['TEST_LOG'] ?? 'silent' })
