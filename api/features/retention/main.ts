import { endAtSignals } from '../../../lib/runtime/lifecycle.ts'

/** `node api/features/retention/main.ts`: one process of a run of a RetentionPolicy, which RETENTION_RUN describes. */
endAtSignals()
await import('./program.ts')
