import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import t, { type Test } from 'tap'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { fakeMp4, formOf, startTestApi, uuidOf } from '../../../support/api.ts'
import { eventually } from '../../../support/eventually.ts'

const api = await startTestApi(t)
const { people, org, call } = api
const upload = (form: FormData, who = people.member, headers = {}) =>
  call(who, 'POST', `/api/media/${org}/single`, { form, headers })
const rows = async (table: string) => (await api.database.admin.query(`select * from ${table}`)).rows

/** Runs something that must fail, and shows that nothing of it is left. */
async function leavesNothing(t: Test, work: () => Promise<unknown>): Promise<void> {
  const before = [await api.keys(), await rows('media'), await rows('outbox'), await rows('object_intents')]
  await work()
  let after: unknown
  const isAsBefore = async () => {
    after = [await api.keys(), await rows('media'), await rows('outbox'), await rows('object_intents')]
    return JSON.stringify(after) === JSON.stringify(before)
  }
  await eventually('nothing left behind', isAsBefore, 30_000, 50).catch(() => {})
  t.strictSame(after, before, 'nothing is left behind')
}

t.test('a whole file becomes a media that can be seen at once', async (t) => {
  const bytes = fakeMp4(300_000)
  const answer = await upload(formOf(bytes, 'Sommer 2019.mp4', { asset_identifier: 'A-1' }))
  t.equal(answer.status, 201)
  t.match(answer.data, {
    media_id: /^med_/,
    org_id: org,
    original_filename: 'Sommer 2019.mp4',
    mime_type: 'video/mp4',
    file_size_bytes: 300_000,
    upload_status: 'processing',
    created_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/,
  })
  const id = uuidOf('media', answer.data.media_id)
  const [row] = (await api.database.admin.query('select * from media where id = $1', [id])).rows
  t.equal(row.sha256, createHash('sha256').update(bytes).digest('hex'))
  t.equal(row.asset_identifier, 'A-1')
  const [event] = (await api.database.admin.query('select * from outbox where aggregate_id = $1', [id])).rows
  t.match(event, { type: 'MediaUploaded', aggregate_version: 1, payload: { uploader_id: people.member.wireId } })
  const [entry] = (await api.database.admin.query('select * from audit_log where resource_id = $1', [id])).rows
  t.match(entry, { action: 'MEDIA_UPLOAD', actor_id: people.member.id, result: 'success', request_id: /^req_/ })
  t.strictSame(await rows('object_intents'), [])
  t.equal((await call(people.another, 'GET', `/api/media/${org}/${answer.data.media_id}`)).status, 200)
})

t.test('fields that come after the file count as well', async (t) => {
  const pair = newUuid()
  const form = formOf(fakeMp4(5000))
  form.append('live_photo_pair_id', pair.toUpperCase())
  form.append('asset_identifier', '')
  const { status, data } = await upload(form)
  t.equal(status, 201)
  const [row] = (await api.database.admin.query('select * from media where id = $1', [uuidOf('media', data.media_id)]))
    .rows
  t.match(row, { live_photo_pair_id: pair, asset_identifier: null })
})

t.test('a bad field behind the file is a 400 and leaves nothing', async (t) => {
  const form = formOf(fakeMp4(5000))
  form.append('live_photo_pair_id', 'not a uuid')
  await leavesNothing(t, async () => {
    const { status, body } = await upload(form)
    t.equal(status, 400)
    t.match(body.error.details, [{ field: 'body.live_photo_pair_id' }])
  })
})

for (const [what, value] of Object.entries({
  'a NUL': 'a\0b',
  'an escape': '\u001b[2J',
  'too much': 'x'.repeat(256),
})) {
  t.test(`an asset identifier with ${what} is a 400 and leaves nothing, before the file and behind it`, async (t) => {
    const behind = formOf(fakeMp4(5000))
    behind.append('asset_identifier', value)
    for (const form of [formOf(fakeMp4(5000), 'a.mp4', { asset_identifier: value }), behind]) {
      await leavesNothing(t, async () => {
        const { status, code, body } = await upload(form)
        t.strictSame([status, code], [400, 'VALIDATION_ERROR'])
        t.match(body.error.details, [{ field: 'body.asset_identifier' }])
      })
    }
  })
}

t.test('a pair id that is taken is refused before the file has arrived, if it came before the file', async (t) => {
  const pair = newUuid()
  const first = await upload(formOf(fakeMp4(5000), 'a.mov', { live_photo_pair_id: pair }))
  t.equal(first.status, 201)
  const { hostname, port } = new URL(api.publicUrl)
  const socket = connect(Number(port), hostname)
  const begun = [
    `POST /v1/api/media/${org}/single HTTP/1.1`,
    'Host: x',
    `Authorization: Bearer ${people.member.token}`,
    'Content-Type: multipart/form-data; boundary=b',
    'Content-Length: 50000000',
    '',
    `--b\r\nContent-Disposition: form-data; name="live_photo_pair_id"\r\n\r\n${pair}`,
    '--b\r\nContent-Disposition: form-data; name="file"; filename="b.mov"\r\n\r\n',
  ]
  await leavesNothing(t, async () => {
    socket.write(Buffer.concat([Buffer.from(begun.join('\r\n')), fakeMp4(100_000)]))
    let answer = ''
    for await (const piece of socket) {
      answer += piece
      if (answer.includes(first.data.media_id)) break
    }
    t.match(answer, /^HTTP\/1.1 409 /)
  })
})

t.test('a second video with the same pair id is a conflict; an image is its other half', async (t) => {
  const fields = { live_photo_pair_id: newUuid() }
  t.equal((await upload(formOf(fakeMp4(5000), 'a.mov', fields))).status, 201)
  await leavesNothing(t, async () => {
    const { status, code } = await upload(formOf(fakeMp4(5000), 'b.mov', fields))
    t.strictSame([status, code], [409, 'CONFLICT'])
  })
  const jpeg = Buffer.concat([Buffer.from([0xff, 0xd8, 0xff, 0xe0]), Buffer.alloc(2000)])
  t.equal((await upload(formOf(jpeg, 'a.jpg', fields))).status, 201)
  t.equal((await upload(formOf(jpeg, 'a.jpg', fields))).status, 409)
  t.equal((await upload(formOf(jpeg, 'a.jpg', fields), people.another)).status, 201, 'pairs are per uploader')
})

const jpegHead = Buffer.from([0xff, 0xd8, 0xff, 0xe0])
const NOT_MEDIA: [string, Buffer][] = [
  ['an empty file', Buffer.alloc(0)],
  ['a playlist called mp4', Buffer.from('#EXTM3U\n#EXT-X-TARGETDURATION:6\nfile:///etc/passwd\n')],
  ['an ffconcat script', Buffer.from('ffconcat version 1.0\nfile secret.mp4\n')],
  ['a DASH manifest', Buffer.from('<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"></MPD>')],
  ['a session description', Buffer.from('v=0\no=- 0 0 IN IP4 127.0.0.1\n')],
  ['a drawing', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')],
  ['a page', Buffer.from('<!doctype html><script>alert(1)</script>')],
  ['a page that hides a picture', Buffer.concat([Buffer.from('<html>'), jpegHead])],
  ['a PDF', Buffer.from('%PDF-1.7\n')],
  ['an archive', Buffer.from('PK\x03\x04 and so on')],
  ['a program', Buffer.from('MZ\x90\0')],
]
for (const [name, bytes] of NOT_MEDIA) {
  t.test(`${name} is refused and leaves nothing`, async (t) => {
    await leavesNothing(t, async () => {
      const { status, code } = await upload(formOf(bytes, 'clip.mp4'))
      t.strictSame([status, code], [415, 'UNSUPPORTED_CONTENT_TYPE'])
    })
  })
}

t.test('one byte more than 100 MiB is refused while it streams and leaves nothing', async (t) => {
  const limit = 100 * 1024 * 1024
  await leavesNothing(t, async () => {
    const { status, code } = await upload(formOf(Buffer.concat([fakeMp4(1000), Buffer.alloc(limit - 999)])))
    t.strictSame([status, code], [413, 'FILE_TOO_LARGE'])
  })
})

/** Refuses the first inserts of a media item with an error of Postgres; resolves with the number of inserts tried. */
async function refusing(times: number, error: string, work: () => Promise<void>): Promise<number> {
  const { admin } = api.database
  await admin.query(`create sequence tries`)
  await admin.query(`grant usage on sequence tries to keepsake_api`)
  await admin.query(`create function refuse_insert() returns trigger language plpgsql as $$
    begin
      if nextval('tries') <= ${times} then raise exception using errcode = '${error}'; end if;
      return new;
    end $$`)
  await admin.query(`create trigger refuse_insert before insert on media for each row execute function refuse_insert()`)
  try {
    await work()
    return Number((await admin.query('select last_value from tries')).rows[0].last_value)
  } finally {
    await admin.query('drop function refuse_insert cascade')
    await admin.query('drop sequence tries')
  }
}

t.test('an upload waits more than once for the counters of its user', async (t) => {
  const tries = await refusing(2, 'lock_not_available', async () => {
    const headers = { 'idempotency-key': newUuid() }
    const bytes = fakeMp4(5000)
    const made = await upload(formOf(bytes), people.member, headers)
    t.equal(made.status, 201)
    t.equal((await call(people.member, 'GET', `/api/media/${org}/${made.data.media_id}`)).status, 200)
    t.strictSame((await upload(formOf(bytes), people.member, headers)).data, made.data, 'the answer was kept once')
  })
  t.equal(tries, 3)
})

t.test('but not for ever, and then leaves nothing', async (t) => {
  const tries = await refusing(1000, 'lock_not_available', () =>
    leavesNothing(t, async () => {
      const { status, code } = await upload(formOf(fakeMp4(5000)))
      t.strictSame([status, code], [503, 'SERVICE_UNAVAILABLE'])
    }),
  )
  t.equal(tries, 5)
})

t.test('nor after another refusal of the database', async (t) => {
  const tries = await refusing(1, 'check_violation', () =>
    leavesNothing(t, async () => t.equal((await upload(formOf(fakeMp4(5000)))).status, 500)),
  )
  t.equal(tries, 1)
})

const NAMES: [string, string, string][] = [
  ['a path is cut to its last part', '../../etc/passwd.mp4', 'passwd.mp4'],
  ['a Windows path too', 'C:\\Users\\me\\clip.mp4', 'clip.mp4'],
  ['direction marks go', 'a\u202egpj.mp4', 'agpj.mp4'],
  ['quotation marks stay', 'the "big" day.mp4', 'the "big" day.mp4'],
  ['line breaks go', 'a\r\nb.mp4', 'ab.mp4'],
  ['other percent signs stay', '100 %41 %2F%.mp4', '100 %41 %2F%.mp4'],
  ['300 characters become 255, the ending stays', `${'x'.repeat(300)}.mp4`, `${'x'.repeat(251)}.mp4`],
  ['emoji and umlauts stay', 'Fête 👨‍👩‍👧 ä.mp4', 'Fête 👨‍👩‍👧 ä.mp4'],
]
for (const [name, given, kept] of NAMES) {
  t.test(`file names: ${name}`, async (t) => {
    const { data } = await upload(formOf(fakeMp4(1000), given))
    t.equal(data?.original_filename, kept)
  })
}

t.test('a file without a name is a file', async (t) => {
  for (const name of ['', '; filename=""']) {
    const head = `--x\r\nContent-Disposition: form-data; name="file"${name}\r\nContent-Type: video/mp4\r\n\r\n`
    const { status, data } = await call(people.member, 'POST', `/api/media/${org}/single`, {
      bytes: Buffer.concat([Buffer.from(head), fakeMp4(20_000), Buffer.from('\r\n--x--\r\n')]),
      headers: { 'content-type': 'multipart/form-data; boundary=x' },
    })
    t.strictSame([status, data?.original_filename, data?.file_size_bytes], [201, 'file', 20_000])
  }
})

t.test('an upload that breaks off leaves nothing', async (t) => {
  await leavesNothing(t, async () => {
    const { hostname, port } = new URL(api.publicUrl)
    const socket = connect(Number(port), hostname)
    const head = `--x\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\nContent-Type: video/mp4\r\n\r\n`
    socket.write(
      `POST /v1/api/media/${org}/single HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${people.member.token}\r\n` +
        `Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 5000000\r\n\r\n${head}`,
    )
    socket.write(fakeMp4(500_000))
    await eventually('the beginning of the upload', async () => (await rows('object_intents')).length === 1)
    socket.destroy()
  })
})

t.test('a form without its end is malformed and leaves nothing', async (t) => {
  await leavesNothing(t, async () => {
    const head = `--x\r\nContent-Disposition: form-data; name="file"; filename="a.mp4"\r\n\r\n`
    const answer = await call(people.member, 'POST', `/api/media/${org}/single`, {
      bytes: Buffer.concat([Buffer.from(head), fakeMp4(50_000)]),
      headers: { 'content-type': 'multipart/form-data; boundary=x' },
    })
    t.equal(answer.status, 400)
  })
})
