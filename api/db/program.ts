import * as z from 'zod'
import { loadConfig } from '../../lib/runtime/config.ts'
import { openLog } from '../../lib/runtime/log.ts'
import { migrate } from './migrate.ts'

const config = loadConfig(
  z.object({
    DATABASE_URL: z.string().regex(/^postgres(ql)?:\/\//, 'must be a postgres:// address'),
    LOG_LEVEL: z.enum(['debug', 'info', 'warn', 'error']).default('info'),
  }),
)
const log = openLog({ program: 'migrate', level: config.LOG_LEVEL })
try {
  const { applied } = await migrate({ url: config.DATABASE_URL, log })
  log.info({ applied: applied.length }, 'database is up to date')
} catch (error) {
  log.fatal({ err: error }, 'could not migrate')
  process.exitCode = 1
}
