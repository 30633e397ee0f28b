import { endAtSignals } from '../../lib/runtime/lifecycle.ts'

endAtSignals()
await import('./program.ts')
