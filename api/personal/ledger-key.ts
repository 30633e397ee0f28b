import * as z from 'zod'
import { Secret } from '../config.ts'

/** The part of an environment that the ledger of erasures is read with. */
export const LedgerKey = z.object({
  ERASURE_KEY: Secret.describe('As for the API. Names users in the ledger of erasures; it must never change'),
})
