import { extname } from 'node:path'
import type { Readable } from 'node:stream'
import { parseArgs } from 'node:util'
import * as z from 'zod'
import { Problem } from '../../lib/contract/problem.ts'
import { loadConfig } from '../../lib/runtime/config.ts'
import { openLog } from '../../lib/runtime/log.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import { openObjectStore, StoreConfig } from '../../lib/runtime/object-store/open.ts'
import { openDatabase } from '../db/db.ts'
import { type Command, type Commands, Failed, type Options, type Session, UsageError } from './command.ts'

/** The extension differs in the image, which has compiled files. */
const PROGRAM = `api/cli${extname(import.meta.filename)}`
/** Where the text about a command begins. */
const COLUMN = 41
const helpOf = (commands: Commands) => `Usage: node ${PROGRAM} COMMAND

${Object.values(commands).map(helpOn).join('\n')}

ORG, MEDIA and TRACK are ids. USER is one of: an id; the e-mail address of a user who has signed in, if the identity provider
has verified it; the subject of a user at the identity provider AUTH_ISSUER, even before the first sign-in.

Prints the result as JSON. Exit status: 0 success, also without a change; 1 error, e.g. no database;
2 invalid usage; 3 refused, e.g. unknown organization; 4 the result, which is printed, is bad.
Environment: DATABASE_URL; AUTH_ISSUER, to identify users by subject; for track add, audit verify and objects orphans, STORE_KIND and the
other settings of the object store; for audit rewrap, AUDIT_KEYS;
for member add with the subject of a user who has not signed in, and erasures replay, ERASURE_KEY; for webhook, OUTBOUND_ALLOWED_ADDRESSES and OUTBOUND_PORTS as the worker has them.
`

function helpOn({ help: [usage, ...does] }: Command): string {
  const start = `  ${usage}`
  const lines =
    start.length < COLUMN
      ? [start.padEnd(COLUMN) + does[0], ...does.slice(1).map(inColumn)]
      : [start, ...does.map(inColumn)]
  return lines.join('\n')
}
const inColumn = (line: string) => ' '.repeat(COLUMN) + line

function understand(commands: Commands, argv: readonly string[]) {
  const options: Record<string, { type: 'string' | 'boolean'; short?: string }> = {
    help: { type: 'boolean', short: 'h' },
  }
  for (const command of Object.values(commands)) {
    for (const [name, type] of Object.entries(command.options ?? {})) options[name] = { type }
  }
  let parsed: { values: Options; positionals: string[] }
  try {
    parsed = parseArgs({ args: [...argv], allowPositionals: true, options }) as typeof parsed
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
  const { values, positionals } = parsed
  if (values['help']) return undefined
  const [area = '', verb = '', ...args] = positionals
  const name = `${area} ${verb}`.trim()
  const form = [name, ...Object.keys(values).map((option) => `${name} --${option}`)].findLast((one) =>
    Object.hasOwn(commands, one),
  )
  const command = form === undefined ? undefined : commands[form]
  if (!command) throw new UsageError(name === '' ? 'no command given' : `there is no command "${name}"`)
  if (args.length !== command.args.length)
    throw new UsageError(`${form} needs ${command.args.join(' ') || 'no argument'}`)
  const strange = Object.keys(values).find((option) => !Object.hasOwn(command.options ?? {}, option))
  if (strange !== undefined) throw new UsageError(`${name} takes no --${strange}`)
  return { command, args, options: values }
}

export interface Terminal {
  out(text: string): void
  err(text: string): void
  /** Standard input of the process, unless given. */
  input?: Readable
}

/** Runs one command of an administrator and returns the exit status; see the help text for both. */
export async function runCommand(
  commands: Commands,
  argv: readonly string[],
  terminal: Terminal,
  env?: Record<string, string | undefined>,
): Promise<number> {
  try {
    const understood = understand(commands, argv)
    const done = understood ? `${JSON.stringify(await execute(understood, terminal, env))}\n` : helpOf(commands)
    terminal.out(done)
    return 0
  } catch (error) {
    return explain(error, terminal, () => helpOf(commands))
  }
}

async function execute(
  { command, args, options }: { command: Command; args: string[]; options: Options },
  terminal: Terminal,
  env: Record<string, string | undefined> | undefined,
): Promise<object> {
  const config = loadConfig(
    z.object({
      DATABASE_URL: z.string().regex(/^postgres(ql)?:\/\//, 'must be a postgres:// address'),
      AUTH_ISSUER: z.string().min(1).optional(),
    }),
    env,
  )
  const log = openLog({ program: 'cli', level: 'error', fd: 2 })
  const db = openDatabase({
    url: config.DATABASE_URL,
    // The role of the API may only read memberships.
    role: 'keepsake_worker',
    statementTimeoutMs: command.statementTimeoutMs ?? 10_000,
    maxConnections: 1,
    log,
  })
  let opened: ObjectStore | undefined
  const store = async () => {
    opened ??= await openObjectStore(loadConfig(StoreConfig, env))
    return opened
  }
  try {
    const settings: Session['settings'] = (schema) => loadConfig(schema, env)
    const print = (line: object) => terminal.out(`${JSON.stringify(line)}\n`)
    const input = () => terminal.input ?? process.stdin
    return await command.run({ db, issuer: config.AUTH_ISSUER, store, input, print, settings }, args, options)
  } finally {
    await opened?.close()
    await db.close()
  }
}

function explain(error: unknown, terminal: Terminal, help: () => string): number {
  if (error instanceof UsageError) {
    terminal.err(`${error.message}\n\n${help()}`)
    return 2
  }
  if (error instanceof Failed) {
    terminal.out(`${JSON.stringify(error.result)}\n`)
    terminal.err(`${error.message}\n`)
    return 4
  }
  terminal.err(`${error instanceof Error ? error.message : String(error)}\n`)
  return error instanceof Problem ? 3 : 1
}
