import { extname } from 'node:path'
import { parseArgs } from 'node:util'
import * as z from 'zod'
import { formatId, type IdKind, parseId, type Uuid } from '../../../lib/contract/ids.ts'
import { Problem } from '../../../lib/contract/problem.ts'
import { ROLES, type Role } from '../../../lib/contract/roles.ts'
import { loadConfig } from '../../../lib/runtime/config.ts'
import { openLog } from '../../../lib/runtime/log.ts'
import type { ObjectStore } from '../../../lib/runtime/object-store/object-store.ts'
import { openObjectStore, StoreConfig } from '../../../lib/runtime/object-store/open.ts'
import { type Database, openDatabase } from '../../db/db.ts'
import { retryFailed, retryMedia } from '../media/commands.ts'
import { countFailedFor, countFailures } from '../media/queries.ts'
import { addTrack, retireTrack } from '../music-tracks/commands.ts'
import { listTracks } from '../music-tracks/queries.ts'
import { addMember, changeRole, createOrganization } from './commands.ts'

/** The extension differs in the image, which has compiled files. */
const PROGRAM = `api/cli${extname(import.meta.filename)}`
const HELP = `Usage: node ${PROGRAM} COMMAND

  org create NAME                        create an organization
  member add ORG USER [--role ROLE]      add a user (ROLE: owner, admin or member; default: member)
  member role ORG USER ROLE              change the role of a member
  media retry MEDIA                      repeat the failed conversion of a media item, or of both halves of a Live Photo;
                                         or convert an image that was uploaded before images were converted
  media retry --reason REASON [--dry-run]
                                         repeat all conversions that failed for a reason, e.g. StoreUnavailable or
                                         INTERNAL; or only count them
  media failures                         count the failed conversions by reason
  track add FILE --title TITLE --license LICENSE --attribution ATTRIBUTION
                                         offer an audio file as music for highlights; users are shown all three texts
  track list                             list the music tracks, with those that are retired
  track retire TRACK                     hide a track from new highlights; those that use it stay as they are

ORG, MEDIA and TRACK are ids. USER is one of: an id; the e-mail address of a user who has signed in, if the identity provider
has verified it; the subject of a user at the identity provider AUTH_ISSUER, even before the first sign-in.

Prints the result as JSON. Exit status: 0 success, also without a change; 1 error, e.g. no database;
2 invalid usage; 3 refused, e.g. unknown organization.
Environment: DATABASE_URL; AUTH_ISSUER, to identify users by subject; for track add, STORE_KIND and the other settings of
the object store.
`

class UsageError extends Error {}

interface Session {
  db: Database
  issuer: string | undefined
  /** Opened when it is needed: most commands need no store. */
  store(): Promise<ObjectStore>
}
interface Command {
  /** Names of the required arguments. */
  args: readonly string[]
  options?: readonly string[]
  run(session: Session, args: string[], options: Options): Promise<object>
}
interface Options {
  role?: string | undefined
  reason?: string | undefined
  title?: string | undefined
  license?: string | undefined
  attribution?: string | undefined
  'dry-run'?: boolean | undefined
}

const COMMANDS: Record<string, Command> = {
  'org create': {
    args: ['NAME'],
    async run({ db }, [name = '']) {
      const made = await createOrganization(db, name)
      return { org_id: formatId('organization', made.orgId), name: made.name }
    },
  },
  'member add': {
    args: ['ORG', 'USER'],
    options: ['role'],
    async run({ db, issuer }, [org = '', user = ''], { role = 'member' }) {
      const member = await addMember(db, { orgId: id('organization', org), user, role: asRole(role), issuer })
      return { ...shown(member), added: member.added }
    },
  },
  'member role': {
    args: ['ORG', 'USER', 'ROLE'],
    async run({ db, issuer }, [org = '', user = '', role = '']) {
      return shown(await changeRole(db, { orgId: id('organization', org), user, role: asRole(role), issuer }))
    },
  },
  'media retry': {
    args: ['MEDIA'],
    async run({ db }, [media = '']) {
      const restarted = await retryMedia(db, id('media', media))
      return { retried: restarted.map((r) => ({ media_id: formatId('media', r.id), generation: r.generation })) }
    },
  },
  // The form of `media retry` without a media item.
  'media retry --reason': {
    args: [],
    options: ['reason', 'dry-run'],
    async run({ db }, _, { reason = '', 'dry-run': isDryRun }) {
      if (isDryRun) return { reason, would_retry: await db.read({}, (tx) => countFailedFor(tx, reason)) }
      return { reason, retried: await retryFailed(db, reason) }
    },
  },
  'media failures': {
    args: [],
    async run({ db }) {
      return { failures: await db.read({}, countFailures) }
    },
  },
  'track add': {
    args: ['FILE'],
    options: ['title', 'license', 'attribution'],
    async run({ db, store }, [file = ''], { title, license, attribution }) {
      if (title === undefined || license === undefined || attribution === undefined) {
        throw new UsageError('track add needs --title, --license and --attribution')
      }
      return shownTrack(await addTrack(db, await store(), { file, title, license, attribution }))
    },
  },
  'track list': {
    args: [],
    async run({ db }) {
      const tracks = await db.read({}, (tx) => listTracks(tx, { retired: true }))
      return { tracks: tracks.map(shownTrack) }
    },
  },
  'track retire': {
    args: ['TRACK'],
    run: async ({ db }, [track = '']) => shownTrack(await retireTrack(db, id('track', track))),
  },
}

const shownTrack = (row: Awaited<ReturnType<typeof addTrack>>) => ({
  music_track_id: formatId('track', row.id),
  title: row.title,
  license: row.license,
  attribution: row.attribution,
  duration_sec: row.durationSec,
  mime_type: row.mimeType,
  file_size_bytes: row.fileSizeBytes,
  retired: row.retiredAt !== null,
})

const shown = (m: { orgId: Uuid; userId: Uuid; role: Role }) => ({
  org_id: formatId('organization', m.orgId),
  user_id: formatId('user', m.userId),
  role: m.role,
})

function id(kind: IdKind, text: string): Uuid {
  const uuid = parseId(kind, text)
  if (uuid === undefined) throw new UsageError(`${text} is not an id of kind ${kind}`)
  return uuid
}

function asRole(text: string): Role {
  const role = ROLES.find((known) => known === text)
  if (!role) throw new UsageError(`${text} is not a role; the roles are ${ROLES.join(', ')}`)
  return role
}

function understand(argv: readonly string[]) {
  let parsed: { values: Options & { help?: boolean }; positionals: string[] }
  try {
    const options = {
      role: { type: 'string' },
      reason: { type: 'string' },
      title: { type: 'string' },
      license: { type: 'string' },
      attribution: { type: 'string' },
      'dry-run': { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    } as const
    parsed = parseArgs({ args: [...argv], allowPositionals: true, options })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
  const { values, positionals } = parsed
  if (values.help) return undefined
  const [area = '', verb = '', ...args] = positionals
  const name = `${area} ${verb}`.trim()
  const form = values.reason === undefined ? name : `${name} --reason`
  const command = commandOf(form) ?? commandOf(name)
  if (!command) throw new UsageError(name === '' ? 'no command given' : `there is no command "${name}"`)
  if (args.length !== command.args.length)
    throw new UsageError(`${form} needs ${command.args.join(' ') || 'no argument'}`)
  const strange = Object.keys(values).find((option) => !command.options?.includes(option))
  if (strange !== undefined) throw new UsageError(`${name} takes no --${strange}`)
  return { command, args, options: values }
}

const commandOf = (name: string) => (Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined)

export interface Terminal {
  out(text: string): void
  err(text: string): void
}

/** Runs one command of an administrator and returns the exit status; see the help text for both. */
export async function runCommandLine(
  argv: readonly string[],
  terminal: Terminal,
  env?: Record<string, string | undefined>,
): Promise<number> {
  try {
    const understood = understand(argv)
    const done = understood ? `${JSON.stringify(await execute(understood, env))}\n` : HELP
    terminal.out(done)
    return 0
  } catch (error) {
    return explain(error, terminal)
  }
}

async function execute(
  { command, args, options }: NonNullable<ReturnType<typeof understand>>,
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
    statementTimeoutMs: 10_000,
    maxConnections: 1,
    log,
  })
  let opened: ObjectStore | undefined
  const store = async () => {
    opened ??= await openObjectStore(loadConfig(StoreConfig, env))
    return opened
  }
  try {
    return await command.run({ db, issuer: config.AUTH_ISSUER, store }, args, options)
  } finally {
    await opened?.close()
    await db.close()
  }
}

function explain(error: unknown, terminal: Terminal): number {
  if (error instanceof UsageError) {
    terminal.err(`${error.message}\n\n${HELP}`)
    return 2
  }
  terminal.err(`${error instanceof Error ? error.message : String(error)}\n`)
  return error instanceof Problem ? 3 : 1
}
