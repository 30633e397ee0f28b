import type { Test } from 'tap'
import { KITS, type Kit } from './program-kinds.ts'

/** Runs the tests once for every kind that runs a program: what holds for one holds for all. */
export function eachKind(
  tap: Test,
  tests: (t: Test, kit: Kit) => void | Promise<void>,
  options: { timeout?: number } = {},
): void {
  for (const kit of KITS) void tap.test(kit.name, options, async (t) => tests(t, kit))
}
