import t, { type Test } from 'tap'
import { expireUploads } from '../../../../api/features/media/uploads/release.ts'
import { newUuid } from '../../../../lib/contract/ids.ts'
import { apiSettings, type CallOptions, fakeMp4, formOf, startTestApi, uuidOf } from '../../../support/api.ts'
import { startApiProcess } from '../../../support/api-process.ts'
import { quietLog } from '../../../support/quiet-log.ts'

// A replica of the API that dies in the middle of an upload; another one goes on with its database and its store.
const api = await startTestApi(t)
const { database, identity, config, org, store } = api
const { member } = api.people
const sql = (text: string, values: unknown[] = []) => database.admin.query(text, values).then(({ rows }) => rows)

const settings = {
  ...apiSettings(database, config.STORE_FOLDER ?? ''),
  LINK_KEYS: JSON.stringify(config.LINK_KEYS),
  AUTH_ISSUER: identity.issuer,
  AUTH_AUDIENCE: identity.audience,
  AUTH_JWKS_URL: identity.jwksUrl,
}

interface Wish {
  path: string
  /** Anew for each request: a form is read once. */
  options(): CallOptions
}

function single(): Wish {
  const [bytes, headers] = [fakeMp4(3000), { 'idempotency-key': newUuid() }]
  return { path: `/api/media/${org}/single`, options: () => ({ form: formOf(bytes), headers }) }
}

/** In two chunks, which are stored already. */
async function merge(): Promise<Wish> {
  const bytes = fakeMp4(3000)
  const path = `/api/media/${org}`
  const json = { filename: 'clip.mp4', mime_type: 'video/mp4', file_size_bytes: 3000, chunk_size_bytes: 1500 }
  const { upload_id } = (await api.call(member, 'POST', `${path}/upload`, { json })).data
  for (const index of [1, 0]) {
    const chunk = bytes.subarray(index * 1500, (index + 1) * 1500)
    await api.call(member, 'PUT', `${path}/upload/${upload_id}/${index}`, { bytes: chunk })
  }
  return { path: `${path}/merge`, options: () => ({ json: { upload_id } }) }
}

/** As hours later: the leases of the killed process have ended, and its intents are old enough for the sweep. */
async function letTimePass(): Promise<void> {
  await sql('update idempotency_keys set locked_until = now()')
  await sql(`update uploads set merge_lease_until = now() where state = 'merging'`)
  await sql(`update object_intents set created_at = now() - interval '4 hours'`)
}

async function killedAt(t: Test, failpoint: string, { path, options }: Wish): Promise<void> {
  const { port, exited } = startApiProcess(t, { ...settings, KEEPSAKE_FAILPOINT: failpoint })
  const { json, form, headers } = options()
  const request = {
    method: 'POST',
    headers: {
      authorization: `Bearer ${member.token}`,
      ...headers,
      ...(json !== undefined && { 'content-type': 'application/json' }),
    },
    body: form ?? JSON.stringify(json),
  }
  await t.rejects(fetch(`http://127.0.0.1:${await port()}/v1${path}`, request), 'no answer')
  t.match(await exited, [null, 'SIGKILL'])
}

const answered: string[] = []

for (const [place, wishOf] of [
  ['upload.stored', single],
  ['upload.committed', single],
  ['merge.claimed', merge],
  ['merge.object-completed', merge],
  ['merge.committed', merge],
] as const) {
  t.test(`killed at ${place}: the repeat makes one media item, or is told of it`, async (t) => {
    const wish = await wishOf()
    const before = await sql('select id from media')
    await killedAt(t, place, wish)
    const isCommitted = place.endsWith('.committed')
    t.equal((await sql('select id from media')).length, before.length + (isCommitted ? 1 : 0))
    await letTimePass()
    const ids: string[] = []
    for (const _ of [1, 2]) {
      const { status, data, body } = await api.call(member, 'POST', wish.path, wish.options())
      t.match(status, /^20[01]$/, { body })
      ids.push(data.media_id)
    }
    t.equal(ids[0], ids[1], 'the same however often it is asked')
    answered.push(uuidOf('media', ids[0] ?? ''))
    t.equal((await sql('select id from media')).length, before.length + 1)
  })
}

t.test(
  'each has one event and one entry of the audit log, no upload is open, nothing is stored for nobody',
  async (t) => {
    const rows = await sql(
      `select id::text, upload_status as status,
      (select count(*)::int from audit_log where action = 'MEDIA_UPLOAD' and resource_id = media.id::text) as audits,
      (select array_agg(type) from outbox where aggregate_id = media.id) as events
    from media order by id`,
    )
    const wanted = answered.toSorted().map((id) => ({ id, status: 'processing', audits: 1, events: ['MediaUploaded'] }))
    t.strictSame(rows, wanted)
    t.strictSame(await sql(`select id, state from uploads where state <> 'completed'`), [])
    await letTimePass()
    t.equal(
      (await expireUploads(database.worker, store, { log: quietLog() })).forgotten,
      1,
      'of the one killed at upload.stored',
    )
    t.strictSame(await sql('select * from object_intents'), [])
    const owners = new Set(
      (await api.keys()).map((key) => /^org\/[^/]+\/media\/([^/]+)\/original$/.exec(key)?.[1] ?? key),
    )
    t.strictSame(owners, new Set(answered))
  },
)
