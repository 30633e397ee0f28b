import { auditCommands } from './audit/administration.ts'
import type { Commands } from './command-line/command.ts'
import { runCommand, type Terminal } from './command-line/run.ts'
import { FEATURES } from './features.ts'
import { orphanCommands } from './orphans/administration.ts'
import { deadLetterCommands } from './worker/consumers/administration.ts'

const COMMANDS: Commands = Object.assign(
  {},
  ...FEATURES.map(({ commands }) => commands),
  deadLetterCommands,
  auditCommands,
  orphanCommands,
)

/** Runs one command of an administrator and returns the exit status. */
export const runCommandLine = (
  argv: readonly string[],
  terminal: Terminal,
  env?: Record<string, string | undefined>,
): Promise<number> => runCommand(COMMANDS, argv, terminal, env)
