import { execFile } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { userIdOf } from '../../../api/auth/verify-token.ts'
import { runCommandLine } from '../../../api/organizations/command-line.ts'
import { formatId, newUuid, parseId } from '../../../lib/contract/ids.ts'
import { testDatabase } from '../../support/database.ts'

const { url, admin } = await testDatabase(t)
const CLI = join(import.meta.dirname, '../../../api/cli.ts')
const ISSUER = 'https://id.example'
const sql = (text: string, values: unknown[] = []) => admin.query(text, values).then((r) => r.rows)

interface Outcome {
  code: number
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
  out: any
  err: string
}
async function cli(
  args: string[],
  env: Record<string, string> = { DATABASE_URL: url, AUTH_ISSUER: ISSUER },
): Promise<Outcome> {
  let [out, err] = ['', '']
  const terminal = {
    out: (text: string) => {
      out += text
    },
    err: (text: string) => {
      err += text
    },
  }
  const code = await runCommandLine(args, terminal, env)
  return { code, out: out.startsWith('{') ? JSON.parse(out) : out, err }
}

/** The same as a program, to see that there is one. */
const program = (args: string[], env: Record<string, string>) =>
  new Promise<Outcome>((resolve) => {
    execFile(process.execPath, [CLI, ...args], { env: { PATH: process.env['PATH'], ...env } }, (error, out, err) => {
      resolve({ code: error ? Number(error.code) : 0, out, err })
    })
  })

const made = await cli(['org', 'create', '  Klasse 7b  '])
const org: string = made.out.org_id
const orgId = parseId('organization', org)

t.test('makes an organization', async (t) => {
  t.match(made, { code: 0, out: { org_id: /^org_/, name: 'Klasse 7b' } })
  t.match(await sql('select name from organizations where id = $1', [orgId]), [{ name: 'Klasse 7b' }])
  t.match(await sql('select * from audit_log where resource_id = $1', [orgId]), [
    { action: 'ADMIN_ACTION', actor_id: null, org_id: orgId, details: { operation: 'create' } },
  ])
})

t.test('adds somebody who has never signed in by their subject, once', async (t) => {
  const first = await cli(['member', 'add', org, 'subject-1', '--role', 'owner'])
  const userId = userIdOf(ISSUER, 'subject-1')
  t.match(first, { code: 0, out: { org_id: org, user_id: formatId('user', userId), role: 'owner', added: true } })
  t.match(await sql('select * from users where id = $1', [userId]), [{ issuer: ISSUER, subject: 'subject-1' }])
  const again = await cli(['member', 'add', org, 'subject-1', '--role', 'owner'])
  t.match(again, { code: 0, out: { added: false } })
  t.equal((await sql(`select from audit_log where action = 'MEMBER_INVITE' and resource_id = $1`, [userId])).length, 1)
  const other = await cli(['member', 'add', org, 'subject-1'])
  t.match(other, { code: 3, err: /already a member, as owner/ })
})

t.test('adds somebody by e-mail address or id once they are known', async (t) => {
  const [anna, twin] = [newUuid(), newUuid()]
  await sql('insert into users (id, issuer, subject, email) values ($1, $2, $3, $4)', [
    anna,
    'i',
    'anna',
    'Anna@x.example',
  ])
  t.match(await cli(['member', 'add', org, 'anna@X.example']), {
    code: 0,
    out: { user_id: formatId('user', anna), role: 'member' },
  })
  t.match(await cli(['member', 'add', org, formatId('user', anna)]), { code: 0, out: { added: false } })
  await sql('insert into users (id, issuer, subject, email) values ($1, $2, $3, $4)', [
    twin,
    'j',
    'anna',
    'anna@x.example',
  ])
  t.match(await cli(['member', 'add', org, 'anna@x.example']), { code: 3, err: /Several users/ })
  t.match(await cli(['member', 'add', org, twin]), { code: 0, out: { user_id: formatId('user', twin) } })
})

t.test('changes a role, but never leaves an organization without an owner', async (t) => {
  const refused = await cli(['member', 'role', org, 'subject-1', 'member'])
  t.match(refused, { code: 3, err: /at least one owner/ })
  const anna = (await sql(`select id from users where subject = 'anna' and issuer = 'i'`))[0].id
  t.match(await cli(['member', 'role', org, formatId('user', anna), 'owner']), { code: 0, out: { role: 'owner' } })
  t.match(await cli(['member', 'role', org, 'subject-1', 'admin']), { code: 0, out: { role: 'admin' } })
  t.match(await sql(`select * from audit_log where details ->> 'operation' = 'change role' order by occurred_at`), [
    { action: 'ADMIN_ACTION', resource_id: anna, details: { from: 'member', to: 'owner' } },
    { details: { from: 'owner', to: 'admin' } },
  ])
  t.match(await cli(['member', 'role', org, 'nobody', 'admin']), { code: 3, err: /no such user/ })
})

t.test('two who demote the last two owners at once leave one', async (t) => {
  const pair = (await cli(['org', 'create', 'Pair'])).out.org_id
  for (const subject of ['p1', 'p2']) await cli(['member', 'add', pair, subject, '--role', 'owner'])
  const both = await Promise.all(['p1', 'p2'].map((subject) => cli(['member', 'role', pair, subject, 'member'])))
  t.strictSame(both.map((b) => b.code).sort(), [0, 3])
})

t.test('sends a failed media through the conversion once more, and only that', async (t) => {
  const user = (await sql(`select id from users limit 1`))[0].id
  const id = newUuid()
  await sql(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
     conversion_state, conversion_attempts, conversion_error)
     values ($1, $2, $3, 'f', 'video/mp4', 'video', 1, 'failed', 'failed', 3, '{"code":"TIMEOUT","message":"m"}')`,
    [id, orgId, user],
  )
  const media = formatId('media', id)
  t.match(await cli(['media', 'retry', media]), { code: 0, out: { media_id: media, generation: 2 } })
  t.match(await sql('select * from media where id = $1', [id]), [
    {
      upload_status: 'processing',
      conversion_state: 'queued',
      conversion_attempts: 0,
      conversion_error: null,
      generation: 2,
      version: 2,
    },
  ])
  t.match(await cli(['media', 'retry', media]), { code: 3, err: /this one is processing/ })
  t.match(await cli(['media', 'retry', formatId('media', newUuid())]), { code: 3, err: /no such media/ })
})

t.test('converts an image that an earlier version completed without converting it, and only such a one', async (t) => {
  const user = (await sql(`select id from users limit 1`))[0].id
  const [old, converted] = [newUuid(), newUuid()]
  await sql(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
     conversion_state, webp_file) values
     ($1, $3, $4, 'f', 'image/png', 'image', 1, 'completed', 'succeeded', null),
     ($2, $3, $4, 'f', 'image/png', 'image', 1, 'completed', 'succeeded', 'image.webp')`,
    [old, converted, orgId, user],
  )
  t.match(await cli(['media', 'retry', formatId('media', old)]), { code: 0, out: { generation: 2 } })
  t.match(await sql('select * from media where id = $1', [old]), [
    { upload_status: 'processing', conversion_state: 'queued', conversion_batch: null },
  ])
  t.match(await cli(['media', 'retry', formatId('media', converted)]), { code: 3, err: /this one is completed/ })
})

const WRONG: [string, string[], number, RegExp][] = [
  ['nothing', [], 2, /no command given/],
  ['an unknown command', ['org', 'explode'], 2, /there is no command "org explode"/],
  ['a property of every object', ['to', 'String'], 2, /there is no command/],
  ['too few words', ['member', 'add', org], 2, /needs ORG USER/],
  ['too many words', ['org', 'create', 'a', 'b'], 2, /needs NAME/],
  ['an unknown option', ['org', 'create', 'a', '--force'], 2, /force/],
  ['an option of another command', ['org', 'create', 'a', '--role', 'owner'], 2, /takes no --role/],
  ['an unknown role', ['member', 'add', org, 'u', '--role', 'king'], 2, /not a role/],
  ['an id that is none', ['member', 'add', 'nonsense', 'u'], 2, /not an id of kind organization/],
  ['an unknown organization', ['member', 'add', formatId('organization', newUuid()), 'u'], 3, /no such organization/],
  ['an unknown e-mail address', ['member', 'add', org, 'who@x.example'], 3, /No user with this verified e-mail/],
  ['an unknown id', ['member', 'add', org, formatId('user', newUuid())], 3, /no such user/],
  ['a subject that no token can have', ['member', 'add', org, 'x'.repeat(256)], 3, /1 to 255 characters/],
  ['an empty name', ['org', 'create', '  '], 3, /must not be empty/],
  ['a name that is too long', ['org', 'create', 'x'.repeat(201)], 3, /at most 200 characters/],
  ['a name with an escape sequence', ['org', 'create', 'x\u001b[2J'], 3, /not allowed/],
]
for (const [name, args, code, err] of WRONG) {
  t.test(`refuses ${name} with status ${code}`, async (t) => t.match(await cli(args), { code, err }))
}

t.test('is a program with an exit status', async (t) => {
  const env = { DATABASE_URL: url }
  t.match(await program(['org', 'create', 'By hand'], env), { code: 0, out: /"org_id":"org_.*By hand/ })
  t.match(await program(['org', 'explode'], env), { code: 2, out: '', err: /there is no command/ })
})

t.test('explains itself, and says what is wrong with its environment', async (t) => {
  t.match(await cli(['--help'], {}), { code: 0, out: /Usage: node api\/cli.ts/ })
  t.match(await cli(['org', 'create', 'x'], {}), { code: 1, err: /DATABASE_URL/ })
  const nowhere = { DATABASE_URL: 'postgres://u:secret@127.0.0.1:1/x' }
  const outcome = await cli(['org', 'create', 'x'], nowhere)
  t.equal(outcome.code, 1)
  t.notMatch(outcome.err, /secret/)
})
