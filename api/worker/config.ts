import * as z from 'zod'
import { int, json } from '../../lib/runtime/config.ts'
import { BusConfig } from '../../lib/runtime/event-bus/open.ts'
import { StoreConfig } from '../../lib/runtime/object-store/open.ts'
import { AuditKeys } from '../audit/master-keys.ts'

/** The environment of the worker, without what its features need. */
export const WorkerConfig = BusConfig.extend({
  ...StoreConfig.shape,
  /** Unset: all addresses, of IPv6 as well where the machine has it. */
  HOST: z.string().optional(),
  HEALTH_PORT: int(0, 65_535).default(8081),
  METRICS_PORT: int(0, 65_535).default(9090),
  DATABASE_URL: z.string().regex(/^postgres(ql)?:\/\//, 'must be a postgres:// address'),
  DATABASE_CONNECTIONS: int(2, 200).default(10),
  /** Of the personal data in the audit log, as the API has them. */
  AUDIT_KEYS: json(AuditKeys),
  NAMESPACE: z
    .string()
    .regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'must be the name of a namespace')
    .describe('Where the worker creates custom resources'),
  POLL_MS: int(50, 60_000).default(1000),
  LEASE_SECONDS: int(1, 600).default(30).describe('How long a worker leases an event'),
  SWEEP_SECONDS: int(1, 3600).default(120),
  SWEEP_IDLE_SECONDS: int(0, 3600).default(30).describe('The sweep skips rows that changed within this time'),
  STUCK_MARGIN_SECONDS: int(0, 604_800)
    .default(86_400)
    .describe('How long a custom resource may wait for a node, in addition to the time of its attempts'),
  GIVE_UP_SECONDS: int(0, 2_592_000)
    .default(259_200)
    .describe(
      'A row that has a slot and no custom resource fails when a worker cannot create it for this time, from its first try on',
    ),
  LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  KEEPSAKE_FAILPOINT: z.string().optional(),
})
export type WorkerConfig = z.output<typeof WorkerConfig>
