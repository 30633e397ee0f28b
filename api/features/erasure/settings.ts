import * as z from 'zod'
import { LedgerKey } from '../../personal/ledger-key.ts'

/** The part of the worker's environment that erasures read. */
export const ErasureSettings = LedgerKey.extend({
  IDENTITY_ERASURE_URL: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('A service that removes accounts at the identity provider. Without it they are not touched'),
  IDENTITY_ERASURE_SECRET: z
    .string()
    .regex(/^whsec_[A-Za-z0-9+/]{32,}={0,2}$/, 'must be whsec_ and base64, as for webhooks')
    .optional(),
})
export type ErasureSettings = z.output<typeof ErasureSettings>
