import * as z from 'zod'
import { parseRange, type Range } from './addresses.ts'

const listed = (text: string) => text.split(',').flatMap((part) => part.trim() || [])

/** Settings of requests to addresses that other people chose. */
export const GuardSettings = z.object({
  OUTBOUND_ALLOWED_ADDRESSES: z
    .string()
    .default('')
    .transform((text, ctx): Range[] =>
      listed(text).flatMap((one) => {
        const range = parseRange(one)
        if (range) return [range]
        ctx.addIssue({ code: 'custom', message: 'must be blocks such as 10.1.0.0/16, separated by commas' })
        return []
      }),
    )
    .describe('Private addresses that webhooks may have. Without it they have public ones only'),
  OUTBOUND_PORTS: z
    .string()
    .default('443,8443')
    .transform((text) => listed(text).map(Number))
    .pipe(z.array(z.int().min(1).max(65_535)).min(1))
    .describe('Ports that webhooks may have'),
})
export type GuardSettings = z.output<typeof GuardSettings>
