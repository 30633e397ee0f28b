import { execFile } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { userIdOf } from '../../../../api/auth/verify-token.ts'
import { ledgerName } from '../../../../api/personal/ledger-name.ts'
import { formatId, newUuid, parseId } from '../../../../lib/contract/ids.ts'
import { commandLine, type Outcome } from '../../../support/command-line.ts'
import { testDatabase } from '../../../support/database.ts'
import { inTurn } from '../../../support/in-turn.ts'
import { quickStart } from '../../../support/quick-start.ts'

const { url, admin } = await testDatabase(t)
const CLI = join(import.meta.dirname, '../../../../api/cli.ts')
const ISSUER = 'https://id.example'
const sql = (text: string, values: unknown[] = []) => admin.query(text, values).then((r) => r.rows)

const ERASURE_KEY = Buffer.alloc(32, 5).toString('base64url')
const cli = (args: string[], env: Record<string, string> = { DATABASE_URL: url, AUTH_ISSUER: ISSUER, ERASURE_KEY }) =>
  commandLine(args, env)

/** The same as a program, to see that there is one. */
const program = (args: string[], env: Record<string, string>) =>
  new Promise<Outcome>((resolve) => {
    execFile(
      process.execPath,
      [CLI, ...args],
      { env: { PATH: process.env['PATH'], ...quickStart(), ...env } },
      (error, out, err) => {
        resolve({ code: error ? Number(error.code) : 0, out, err })
      },
    )
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
  t.match(await sql(`select org_id, payload from outbox where type = 'MemberJoined' and aggregate_id = $1`, [userId]), [
    { org_id: orgId, payload: { org_id: org, user_id: formatId('user', userId), joined_at: /Z$/ } },
  ])
  const other = await cli(['member', 'add', org, 'subject-1'])
  t.match(other, { code: 3, err: /already a member, as owner/ })
})

t.test('adds nobody who was erased, of whom a restored database has no row', async (t) => {
  const userId = userIdOf(ISSUER, 'subject-erased')
  await sql('insert into erasure_ledger (name) values ($1)', [ledgerName(ERASURE_KEY, userId)])
  t.match(await cli(['member', 'add', org, 'subject-erased']), { code: 3, err: /was erased/ })
  t.strictSame(await sql('select from users where id = $1', [userId]), [])
  const env = { DATABASE_URL: url, AUTH_ISSUER: ISSUER }
  t.match(await cli(['member', 'add', org, 'subject-new'], env), { code: 1, err: /ERASURE_KEY/ }, 'nor without looking')
})

t.test('adds nobody whose account was closed', async (t) => {
  const subject = 'subject-closed'
  const userId = userIdOf(ISSUER, subject)
  await sql(
    `insert into users (id, issuer, subject, email, closed_at, tokens_not_before)
      values ($1, $2, $3, 'closed@x.example', now(), 'infinity')`,
    [userId, ISSUER, subject],
  )
  await sql('insert into erasure_ledger (name) values ($1)', [ledgerName(ERASURE_KEY, userId)])
  for (const [named, says] of [
    [formatId('user', userId), /no such user/],
    ['closed@x.example', /No user with this verified e-mail address/],
    [userId, /was erased/],
    [subject, /was erased/],
  ] as const)
    t.match(await cli(['member', 'add', org, named]), { code: 3, err: says }, named)
  t.match(await cli(['member', 'role', org, formatId('user', userId), 'admin']), { code: 3, err: /no such user/ })
  t.strictSame(await sql('select from memberships where user_id = $1', [userId]), [])
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

t.test('adds a user who becomes a member at that moment, by an invitation', async (t) => {
  const user = newUuid()
  await sql('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, ISSUER, 'joining'])
  const joined = {
    text: `insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`,
    values: [orgId, user],
  }
  const [added] = await inTurn({ admin }, joined, () => cli(['member', 'add', org, formatId('user', user)]))
  t.match(added, { code: 0, out: { user_id: formatId('user', user), role: 'member', added: false } })
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
  t.match(await cli(['media', 'retry', media]), { code: 0, out: { retried: [{ media_id: media, generation: 2 }] } })
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

/** A failed conversion. */
async function aFailure(kind: 'image' | 'video', error: object | null, paired?: string) {
  const user = (await sql(`select id from users limit 1`))[0].id
  const id = newUuid()
  const status = error === null ? ['completed', 'succeeded'] : ['failed', 'failed']
  await sql(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status,
     conversion_state, conversion_error, conversion_finished_at, webp_file)
     values ($1, $2, $3, 'f', $4, $5, 1, $6, $7, $8, now(), case when $6 = 'completed' then 'image.webp' end)`,
    [id, orgId, user, kind === 'image' ? 'image/jpeg' : 'video/mp4', kind, ...status, error],
  )
  if (paired)
    await sql('update media set paired_media_id = case id when $1 then $2::uuid else $1 end where id in ($1, $2)', [
      id,
      paired,
    ])
  return id
}
const generations = async (...ids: string[]) => {
  const rows = await sql('select id, generation, upload_status from media where id = any($1)', [ids])
  return ids.map((id) => {
    const row = rows.find((r) => r.id === id)
    return `${row.generation} ${row.upload_status}`
  })
}
const ours = (reason: string) => ({ code: 'INTERNAL', message: 'm', reason })
const damaged = { code: 'CORRUPT_INPUT', message: 'm', reason: 'CorruptInput' }

t.test('a retry of either half of a Live Photo repeats both that failed, and no half that did not', async (t) => {
  const image = await aFailure('image', ours('StoreUnavailable'))
  const video = await aFailure('video', damaged, image)
  const { out } = await cli(['media', 'retry', formatId('media', image)])
  t.strictSame(
    out.retried.map((r: { media_id: string }) => r.media_id).sort(),
    [image, video].map((id) => formatId('media', id)).sort(),
  )
  t.strictSame(await generations(image, video), ['2 processing', '2 processing'])

  const fine = await aFailure('image', null)
  const broken = await aFailure('video', damaged, fine)
  t.match(await cli(['media', 'retry', formatId('media', fine)]), {
    out: { retried: [{ media_id: formatId('media', broken) }] },
  })
  t.strictSame(await generations(fine, broken), ['1 completed', '2 processing'])
  t.match(await cli(['media', 'retry', formatId('media', fine)]), { code: 3, err: /this one is completed/ })
})

t.test('all that failed for one reason are repeated by one command, and nothing else', async (t) => {
  const wrongBucket = await Promise.all(Array.from({ length: 230 }, () => aFailure('image', ours('NoSuchBucket'))))
  const [image, other] = [await aFailure('image', damaged), await aFailure('video', damaged)]
  const half = await aFailure('video', ours('NoSuchBucket'), image)
  const withoutReason = await aFailure('video', { code: 'INTERNAL', message: 'an earlier version' })
  const deleted = await aFailure('video', ours('NoSuchBucket'))
  await sql('update media set deleted_at = now() where id = $1', [deleted])

  t.strictSame((await cli(['media', 'failures'])).out.failures, [
    { reason: 'NoSuchBucket', code: 'INTERNAL', count: 231 },
    { reason: 'CorruptInput', code: 'CORRUPT_INPUT', count: 2 },
    { reason: 'INTERNAL', code: 'INTERNAL', count: 1 },
  ])
  const retry = ['media', 'retry', '--reason', 'NoSuchBucket']
  t.strictSame((await cli([...retry, '--dry-run'])).out, { reason: 'NoSuchBucket', would_retry: 232 })
  t.strictSame(await generations(half), ['1 failed'], 'a dry run changes nothing')
  const both = await Promise.all([cli(retry), cli(retry)])
  t.equal(both[0].out.retried + both[1].out.retried, 232, 'two administrators at once repeat each once')
  t.strictSame(new Set(await generations(...wrongBucket, image, half)), new Set(['2 processing']))
  t.strictSame(await generations(other, withoutReason, deleted), ['1 failed', '1 failed', '1 failed'])
  t.equal((await cli(retry)).out.retried, 0)
  const audited = await sql(`select resource_id from audit_log where action = 'ADMIN_ACTION' and resource_type = 'media'
    and details ->> 'operation' = 'retry conversion' and details ->> 'reason' = 'NoSuchBucket'`)
  t.equal(audited.length, 232)
  t.equal(new Set(audited.map((a) => a.resource_id)).size, 232)

  t.strictSame((await cli(['media', 'retry', '--reason', 'INTERNAL'])).out, { reason: 'INTERNAL', retried: 1 })
  t.strictSame(await generations(withoutReason, other), ['2 processing', '1 failed'])
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
  t.match(await cli(['media', 'retry', formatId('media', old)]), { code: 0, out: { retried: [{ generation: 2 }] } })
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
  ['a reason and a media item', ['media', 'retry', 'med_x', '--reason', 'INTERNAL'], 2, /needs no argument/],
  ['a reason for another command', ['media', 'failures', '--reason', 'INTERNAL'], 2, /takes no --reason/],
  ['a dry run of one', ['media', 'retry', 'med_x', '--dry-run'], 2, /takes no --dry-run/],
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
