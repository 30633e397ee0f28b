import { endAtSignals } from '../../lib/runtime/lifecycle.ts'

/** `node api/db/main.ts`: migrates and exits. Must run before the programs of a new version start. */
endAtSignals()
await import('./program.ts')
