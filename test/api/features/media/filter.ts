import t from 'tap'
import { type ListOptions, listMedia } from '../../../../api/features/media/queries.ts'
import { sniff } from '../../../../api/features/media/sniff.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { startApiOn } from '../../../support/api.ts'
import { ask } from '../../../support/ask.ts'
import { testDatabase } from '../../../support/database.ts'
import { planOf } from '../../../support/explain.ts'
import { startTestIdentity } from '../../../support/identity.ts'

const ROWS = 20_000
const LIMIT = 20
const { admin, ...database } = await testDatabase(t)
const [org, user] = [newUuid(), newUuid()]
await admin.query(`insert into organizations (id, name) values ($1, 'One')`, [org])
await admin.query('insert into users (id, issuer, subject) values ($1, $2, $3)', [user, 'i', user])
await admin.query(`insert into memberships (org_id, user_id, role) values ($1, $2, 'member')`, [org, user])
// Of thousands of videos four are of a rare type, and the oldest rows are the only images.
await admin.query(
  `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, created_at, deleted_at)
   select gen_random_uuid(), $1, $2, 'f' || n,
     case when n % 5000 = 0 then 'video/webm' when n > $3::int - 30 then 'image/heic' else 'video/mp4' end,
     case when n % 5000 <> 0 and n > $3::int - 30 then 'image' else 'video' end,
     1, now() - make_interval(secs => n), case when n = $3::int - 7 then now() end
   from generate_series(1, $3::int) n`,
  [org, user, ROWS],
)
await admin.query('analyze media')

/** Without the look-up of the other half of a Live Photo, of which there are none here. */
const planOfPage = (options: Partial<ListOptions>) => {
  const page = { orgId: org, sort: 'created_at', mimeType: undefined, after: undefined, limit: LIMIT + 1 } as const
  return planOf({ admin }, org, (tx) => listMedia(tx, { ...page, ...options }), 'half')
}

const halfWay = async (where: string) => {
  const { rows } = await admin.query(
    `select id, to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
     from media where ${where} order by created_at desc, id desc offset 2 limit 1`,
  )
  return rows[0] as { id: string; at: string }
}

const PAGES: [name: string, options: Partial<ListOptions>, index: string, rows: number][] = [
  ['of one type', { mimeType: 'video/webm' }, 'media_of_type', 4],
  ['of one kind', { mimeType: 'image/*' }, 'media_of_kind', LIMIT + 1],
  ['of a type that is not there', { mimeType: 'image/avif' }, 'media_of_type', 0],
  ['of a kind that there is not', { mimeType: 'audio/*' }, 'media_of_kind', 0],
  [
    'of one type behind a cursor',
    { mimeType: 'video/webm', after: await halfWay(`mime_type = 'video/webm'`) },
    'media_of_type',
    1,
  ],
  [
    'of one kind behind a cursor',
    { mimeType: 'image/*', after: await halfWay(`kind = 'image'`) },
    'media_of_kind',
    LIMIT + 1,
  ],
  ['of everything', {}, 'media_of_org', LIMIT + 1],
  ['of everything by capture time', { sort: 'captured_at' }, 'media_taken', LIMIT + 1],
  [
    'of one type by capture time',
    { sort: 'captured_at', mimeType: 'video/webm', after: await halfWay(`mime_type = 'video/webm'`) },
    'media_taken_of_type',
    1,
  ],
  ['of one kind by capture time', { sort: 'captured_at', mimeType: 'image/*' }, 'media_taken_of_kind', LIMIT + 1],
]
for (const [name, options, index, rows] of PAGES) {
  t.test(`the page ${name} reads what it shows and nothing else`, async (t) => {
    const nodes = await planOfPage(options)
    t.strictSame(
      nodes.flatMap((node) => node['Index Name'] ?? []),
      [index],
    )
    t.equal(nodes.at(-1)?.['Actual Rows'], rows)
    t.ok(nodes.every((node) => !node['Rows Removed by Filter'] && node['Node Type'] !== 'Sort'))
  })
}

t.test('a kind is what stands before the slash in the types of its files', async (t) => {
  const heads = ['\xff\xd8\xff', 'GIF89a', '\0\0\0\x18ftypheic\0\0\0\0mif1heic', '\0\0\0\x18ftypqt  \0\0\0\0qt  mp42']
  for (const head of heads) {
    const sniffed = sniff(Buffer.from(head, 'latin1'), head.length)
    t.equal(sniffed?.mimeType.split('/')[0], sniffed?.kind)
    t.ok(sniffed)
  }
})

t.test('the pages of a filter are together what the filter lets through, deleted media aside', async (t) => {
  const identity = await startTestIdentity(t)
  const api = await startApiOn(t, { database: { admin, ...database }, identity })
  const authorization = `Bearer ${await identity.token({ sub: user })}`
  for (const [filter, where] of [
    ['video/webm', `mime_type = 'video/webm'`],
    ['image/*', `kind = 'image'`],
    ['image/heic', `mime_type = 'image/heic'`],
    ['audio/*', 'false'],
  ] as const) {
    const names: string[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const query = new URLSearchParams({ mime_type: filter, limit: '7', ...(cursor && { cursor }) })
      const { json } = await ask(api.port, { path: `/v1/api/media/${org}?${query}`, headers: { authorization } })
      names.push(...json.data.media.map((m: { original_filename: string }) => m.original_filename))
      cursor = json.data.next_cursor
    }
    const { rows } = await admin.query(
      `select original_filename as name from media where ${where} and deleted_at is null order by created_at desc, id desc`,
    )
    t.strictSame(
      names,
      rows.map((r) => r.name),
      filter,
    )
  }
})
