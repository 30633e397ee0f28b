import * as z from 'zod'
import type { CelRule } from './kind.ts'

/** What a RetentionPolicy is about; a namespace has one policy in force for each. */
export const RETENTION_TARGETS = [
  'MediaTrash',
  'EventArchive',
  'AuditLog',
  'Uploads',
  'PieceCache',
  'Notifications',
] as const
export const RetentionTarget = z.enum(RETENTION_TARGETS)
export type RetentionTarget = z.infer<typeof RetentionTarget>

/** In the order in which things move through them; everything begins in none of them. */
export const RETENTION_TIERS = ['warm', 'cold'] as const
export type RetentionTier = (typeof RETENTION_TIERS)[number]

/** Tiers that the things of a target can move to. Everything of every target can be purged. */
export const TIERS_OF: Readonly<Record<RetentionTarget, readonly RetentionTier[]>> = {
  MediaTrash: [],
  EventArchive: ['cold'],
  AuditLog: ['warm', 'cold'],
  Uploads: [],
  PieceCache: [],
  Notifications: [],
}

/**
 * An ISO 8601 duration of whole days: years, months, weeks and days, each at most once. No part is longer than five
 * digits, so that CEL can add them.
 */
export const DAYS_PATTERN = /^P([0-9]{1,3}Y)?([0-9]{1,4}M)?([0-9]{1,4}W)?([0-9]{1,5}D)?$/
export const MAX_DAYS = 36_500
const DAYS_IN = { Y: 365, M: 30, W: 7, D: 1 } as const

/**
 * The days of a duration, counting 365 for a year and 30 for a month. For comparing durations alone: when something is
 * due, Postgres computes with its calendar, and reads the same text. Undefined for anything but a duration of days.
 */
export function daysOf(duration: string): number | undefined {
  if (duration.length < 3 || !DAYS_PATTERN.test(duration)) return undefined
  let days = 0
  for (const [, count, unit] of duration.matchAll(/([0-9]+)([YMWD])/g)) {
    days += Number(count) * DAYS_IN[unit as keyof typeof DAYS_IN]
  }
  return days
}

const isTooLong = (text: string) => (daysOf(text) ?? 0) > MAX_DAYS

/** `daysOf` in CEL. */
const celDays = (duration: string): string =>
  Object.entries(DAYS_IN)
    .map(([unit, days]) => {
      const count = `int(${duration}.find('[0-9]+${unit}').replace('${unit}', ''))`
      return `(${duration}.contains('${unit}') ? ${count} * ${days} : 0)`
    })
    .join(' + ')

const Duration = z
  .string()
  .min(3)
  .max(20)
  .regex(DAYS_PATTERN)
  .refine((text) => daysOf(text) !== 0 && !isTooLong(text), 'must be between one day and 100 years')

const celOfRule: CelRule[] = [
  {
    rule: `${celDays('self.after')} >= 1 && ${celDays('self.after')} <= ${MAX_DAYS}`,
    message: 'after must be between one day and 100 years',
    fieldPath: '.after',
  },
  {
    rule: "(self.action == 'moveToTier') == has(self.tier)",
    message: 'tier must be set with moveToTier, and only with it',
  },
]

export const RetentionRule = z
  .object({
    after: Duration.describe(
      'Age at which the action is due: an ISO 8601 duration of years, months, weeks and days, such as P30D or P7Y',
    ),
    action: z
      .enum(['moveToTier', 'purge'])
      .describe('moveToTier: the bytes move to the tier and stay readable. purge: everything is deleted for good'),
    tier: z.enum(RETENTION_TIERS).optional().describe('Tier to move to; only with moveToTier'),
  })
  .meta({ 'x-kubernetes-validations': celOfRule })
export type RetentionRule = z.infer<typeof RetentionRule>

/** Why these rules are none for this target; undefined if they are. The CEL rules of the resource say the same. */
export function faultOfRules(target: RetentionTarget, rules: readonly RetentionRule[]): string | undefined {
  const days = rules.map((r) => daysOf(r.after) ?? 0)
  if (days.some((d, i) => i > 0 && d <= (days[i - 1] ?? 0))) {
    return 'each rule must have a longer "after" than the one before it (a year counts 365 days, a month 30)'
  }
  if (rules.some((r, i) => r.action === 'purge' && i < rules.length - 1)) return 'purge must be the last rule'
  if (rules.some((r) => (r.action === 'moveToTier') !== (r.tier !== undefined))) {
    return 'tier must be set with moveToTier, and only with it'
  }
  const tiers = rules.flatMap((r) => r.tier ?? [])
  const places = tiers.map((t) => RETENTION_TIERS.indexOf(t))
  if (places.some((p, i) => i > 0 && p <= (places[i - 1] ?? 0))) {
    return 'each tier may be moved to once, and warm comes before cold'
  }
  const foreign = tiers.find((t) => !TIERS_OF[target].includes(t))
  return foreign && `${target} does not move to the tier ${foreign}`
}

const days = celDays('r.after')
const movesTo = (tier: RetentionTier) => `self.rules.filter(r, has(r.tier) && r.tier == '${tier}').size()`

/** The rules of `faultOfRules` for the API server, on the parent of `target` and `rules`. */
export const celOfRules: CelRule[] = [
  {
    rule: `self.rules.map(r, ${days}).isSorted() && self.rules.all(r, self.rules.exists_one(o, ${celDays('o.after')} == ${days}))`,
    message: 'each rule must have a longer "after" than the one before it (a year counts 365 days, a month 30)',
    fieldPath: '.rules',
  },
  {
    rule: "self.rules.filter(r, r.action == 'purge').size() <= 1 && (self.rules.all(r, r.action != 'purge') || self.rules[self.rules.size() - 1].action == 'purge')",
    message: 'purge must be the last rule',
    fieldPath: '.rules',
  },
  {
    // Without a comparison of each rule with each other one, whose estimated cost the API server does not accept.
    rule: `${movesTo('warm')} <= 1 && ${movesTo('cold')} <= 1 && self.rules.filter(r, has(r.tier)).map(r, r.tier == 'warm' ? 0 : 1).isSorted()`,
    message: 'each tier may be moved to once, and warm comes before cold',
    fieldPath: '.rules',
  },
  ...Object.entries(TIERS_OF).map(([target, tiers]) => ({
    rule: `self.target != '${target}' || self.rules.all(r, !has(r.tier) || r.tier in [${tiers.map((t) => `'${t}'`).join(', ')}])`,
    message:
      tiers.length === 0 ? `${target} can only be purged` : `${target} moves to no tier but ${tiers.join(' and ')}`,
    fieldPath: '.rules',
  })),
]
