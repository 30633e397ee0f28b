import * as z from 'zod'
import { int } from '../config.ts'
import type { Log } from '../log.ts'
import type { EventBus } from './event-bus.ts'
import { openMemoryBus } from './memory.ts'

const Fields = z.object({
  BUS_KIND: z.enum(['memory', 'nats']),
  NATS_URL: z
    .string()
    .regex(/^(nats|tls):\/\/[^,\s]+(,(nats|tls):\/\/[^,\s]+)*$/, 'is not a nats:// address')
    .optional(),
  NATS_REPLICAS: int(1, 5).default(1),
})
type Fields = z.output<typeof Fields>

/** Programs `extend` this with their own variables; copying `.shape` would lose the check across fields. */
export const BusConfig = Fields.superRefine((config, ctx) => {
  if (config.BUS_KIND !== 'nats' || config.NATS_URL !== undefined) return
  ctx.addIssue({ code: 'custom', path: ['NATS_URL'], message: 'is needed when BUS_KIND is nats' })
})

/** Opens the bus that the configuration names. Does not wait for a server: see `check`. */
export async function openEventBus(config: Fields, log: Log): Promise<EventBus> {
  if (config.BUS_KIND === 'memory') return openMemoryBus({ log })
  if (config.NATS_URL === undefined) throw new Error('Bad configuration: NATS_URL is needed for nats')
  // Loads a client that takes a tenth of the start of an API, which has no bus.
  const { openNatsBus } = await import('./nats.ts')
  return openNatsBus({ url: config.NATS_URL, replicas: config.NATS_REPLICAS, log })
}
