import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { RENDERS } from '../../api/features/highlights/render/kind.ts'
import { startAdmitted } from '../../api/worker/runs/start.ts'
import { formatId, newUuid } from '../../lib/contract/ids.ts'
import { downloadPrefix, originalKey, outputPrefix } from '../../lib/contract/object-keys.ts'
import type { Cluster } from '../../lib/runtime/kube/cluster.ts'
import { albumWorld } from './albums.ts'
import { type Answer, type CallOptions, fakeMp4, formOf, type Person, type TestApi, uuidOf } from './api.ts'
import type { Canaries } from './erasure.ts'
import { highlightWorld, renderWorld } from './highlights.ts'
import { asInvitation } from './invitations.ts'
import { aBrowser } from './push.ts'

/** What it takes to look for what a person left: the person, and what others have that has to stay. */
export interface CanaryScene {
  person: Person
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  /** Wire ids. */
  event: string
  draft: string
  ownAlbum: string
  sharedAlbum: string
  othersAlbum: string
  othersMedia: string
  media: string
  othersHighlight: string
  ownHighlight: string
  replied: string
  mentioned: string
}

async function ok(answer: Promise<Answer>): Promise<Answer['data']> {
  const { status, body, data } = await answer
  if (status < 300) return data
  throw new Error(`the scene was answered ${status}: ${JSON.stringify(body)}`)
}

/**
 * A member of the organization who fills every field that a person can fill, by requests wherever there is one; what
 * programs write, such as notifications, is written as they do.
 */
export async function canaryScene(api: TestApi, c: Canaries, cluster: Cluster): Promise<CanaryScene> {
  const { org, people, database, identity, store } = api
  const { admin } = database
  const orgId = uuidOf('organization', org)
  const sql = async (text: string, values: unknown[] = []) => (await admin.query(text, values)).rows
  const claims = {
    ...{ email: c.email, email_verified: true, phone_number: c.phone, phone_number_verified: true },
    ...{ name: c.text, sid: c.token, auth_time: undefined },
  }
  const person: Person = {
    id: c.id,
    wireId: formatId('user', c.id),
    token: await identity.token({ sub: c.id, claims }),
  }
  const headers = { 'user-agent': c.agent, 'x-forwarded-for': c.address, 'x-request-id': c.token }
  const call = (method: string, path: string, o: CallOptions = {}) =>
    api.call(person, method, path, { ...o, headers: { ...headers, ...o.headers } })
  const post = (path: string, json: object, more: Record<string, string> = {}) =>
    ok(call('POST', path, { json, headers: more }))
  const asOwner = (path: string, json: object, method = 'POST') => ok(api.call(people.owner, method, path, { json }))

  // The account.
  await ok(call('GET', '/api/users/me'))
  await sql('update users set locale = $2 where id = $1', [c.id, c.token])
  await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'admin')`, [orgId, c.id])

  // Media items: one that is there, and an upload that is open, with a chunk.
  const fields = { live_photo_pair_id: c.uuid, asset_identifier: c.text }
  const { media_id: media } = await ok(
    call('POST', `/api/media/${org}/single`, { form: formOf(fakeMp4(200), `${c.filename}.mp4`, fields) }),
  )
  const mediaId = uuidOf('media', media)
  await sql(
    `update media set sha256 = $2, placeholder = $2, manifest = jsonb_build_object('source', $3::text),
      upload_status = 'completed', conversion_state = 'succeeded', output_prefix = $4 where id = $1`,
    [mediaId, c.token, c.text, outputPrefix(orgId, mediaId, 1)],
  )
  await store.put(originalKey(orgId, mediaId), `bytes, exif ${c.text}`, { contentType: 'video/mp4' })
  await store.put(`${outputPrefix(orgId, mediaId, 1)}manifest.json`, gzipSync(c.text), {
    contentType: 'application/gzip',
  })
  const { upload_id } = await post(`/api/media/${org}/upload`, {
    filename: c.filename,
    mime_type: 'video/mp4',
    file_size_bytes: 200,
    chunk_size_bytes: 100,
    checksum_sha256: 'a'.repeat(64),
    ...fields,
    live_photo_pair_id: newUuid(),
  })
  const chunk = Buffer.concat([fakeMp4(40), Buffer.from(c.token)])
  const bytes = Buffer.concat([chunk, Buffer.alloc(100 - chunk.length)])
  await ok(call('PUT', `/api/media/${org}/upload/${upload_id}/0`, { bytes }))
  await sql('update uploads set checksum_sha256 = $1, live_photo_pair_id = $2, mime_type = $3 where uploader_id = $4', [
    c.token,
    c.uuid,
    c.text,
    c.id,
  ])
  await sql('update upload_chunks set sha256 = $1', [c.token])

  // An export of the audit log by an administrator, as the worker makes it: the person's address is in clear.
  const [exportId, auditor] = [newUuid(), people.platformAdmin.id]
  const objectKey = `${downloadPrefix(auditor, exportId)}1-1/audit-log.jsonl`
  await store.put(objectKey, JSON.stringify({ ip_address: c.address, user_agent: c.agent }), {
    contentType: 'application/jsonl',
  })
  await sql(
    `insert into audit_exports (id, user_id, format, filters, until, state, entries, bytes, object_key, completed_at, expires_at)
      values ($1, $2, 'jsonl', '{}', now(), 'completed', 1, 1, $3, now(), now() + interval '7 days')`,
    [exportId, auditor, objectKey],
  )

  // Events and albums: of their own, and of others.
  const worldOf = albumWorld(api)
  const event_ = { title: c.text, description: c.text, start_at: '2026-12-05T17:00:00Z', location_name: c.text }
  const { event_id: event } = await post(`/api/orgs/${org}/events`, { ...event_, location_geo: [52, 13] })
  await ok(call('POST', `/api/orgs/${org}/events/${event}/activate`))
  const { event_id: draft } = await post(`/api/orgs/${org}/events`, event_)
  const othersMedia = await worldOf.aMedia({ by: people.owner })
  const album = (json: object) => post(`/api/orgs/${org}/albums`, json)
  const { album_id: ownAlbum } = await album({ title: c.text, description: c.text })
  const { album_id: sharedAlbum } = await album({ title: c.text, description: c.text, visibility: 'organization' })
  const { album_id: othersAlbum } = await asOwner(`/api/orgs/${org}/albums`, { title: 'Ours' })
  await asOwner('/api/v1/albums/status', { album_id: othersAlbum, status: 'PUBLIC' }, 'PUT').catch(() => undefined)
  const itemsOf = (id: string) => `/api/orgs/${org}/albums/${id}/media`
  await post(itemsOf(ownAlbum), { media_id: media, caption: c.text })
  await post(itemsOf(sharedAlbum), { media_id: othersMedia })
  await asOwner(itemsOf(othersAlbum), { media_id: othersMedia, caption: 'by others' })
  await ok(call('PATCH', `${itemsOf(othersAlbum)}/${othersMedia}`, { json: { caption: c.text } }))

  // Comments, with versions, a reason and a reply; and a mention by someone else.
  const at = `/api/orgs/${org}/events/${event}/meta/${event}/comments`
  const key = { 'idempotency-key': c.token }
  const { comment_id: replied } = await post(at, { body: c.text, mentions: [people.owner.wireId] }, key)
  await ok(call('PATCH', `${at}/${replied}`, { json: { body: `${c.text} again` } }))
  await asOwner(`/api/orgs/${org}/events/${event}/comment/${replied}/comments`, { body: 'a reply' })
  const { comment_id: plain } = await post(at, { body: c.text, media_ids: [othersMedia] })
  await ok(call('DELETE', `${at}/${plain}`, { json: { reason: c.text } }))
  const { comment_id: moderated } = await asOwner(at, { body: 'rude' })
  await ok(call('DELETE', `${at}/${moderated}`, { json: { reason: c.text } }))
  const { comment_id: mentioned } = await asOwner(at, { body: `Hello @${person.wireId}!`, mentions: [person.wireId] })
  await asOwner(`${at}/${mentioned}`, { body: `Hello again @${c.id.toUpperCase()}.` }, 'PATCH')
  await post(`/api/orgs/${org}/events/${event}/reactions/meta`, { action_id: event, emoji: '🎉' })

  // Invitations that they sent and got, in every form of address.
  const invitations = `/api/orgs/${org}/events/${event}/invitations`
  await post(invitations, { email: 'friend@example.org', message: c.text })
  const { event_id: other } = await asOwner(`/api/orgs/${org}/events`, { title: 'Theirs', start_at: event_.start_at })
  await asOwner(`/api/orgs/${org}/events/${other}/activate`, {})
  const invite = (json: object) => asOwner(`/api/orgs/${org}/events/${other}/invitations`, json)
  const byMail = asInvitation(await invite({ email: c.email, message: c.text }))
  const byPhone = asInvitation(await invite({ phone_number: c.phone }))
  await invite({ uuid: c.id })
  const passed = asInvitation(await invite({ email: 'other-friend@example.org' }))
  await sql('update events set purge_notice_to = owner_id where owner_id = $1', [c.id])
  await sql('update invitations set former_inviter = $2, former_message = $3 where id = $1', [passed.id, c.id, c.text])
  await ok(call('POST', `/api/invitations/${byMail.wireId}/respond`, { json: { response: 'accept', message: c.text } }))

  // Highlights: with their media item, and with their words.
  const highlights = highlightWorld(api)
  const renders = renderWorld(api, highlights, cluster)
  const rendered = async (id: string) => {
    await sql('update highlights set render_admitted_at = now(), placeholder = $2 where id = $1', [
      uuidOf('highlight', id),
      c.token,
    ])
    await renders.writeOutput(id)
    await store.put(`${renders.prefixOf(id)}film.ts`, c.text, { contentType: 'video/mp2t' })
    await startAdmitted(renders.deps, RENDERS, uuidOf('highlight', id))
    await sql(
      `update highlights set status = 'completed', render_state = 'succeeded', output_prefix = $2 where id = $1`,
      [uuidOf('highlight', id), renders.prefixOf(id)],
    )
    return id
  }
  const { highlight_id } = await asOwner(`/api/media/${org}/highlights`, { title: 'With theirs', media_ids: [media] })
  const othersHighlight = await rendered(highlight_id)
  const own = { title: c.text, media_ids: [othersMedia], captions: 'caption' }
  const ownHighlight = await rendered(
    (await post(`/api/orgs/${org}/albums/${othersAlbum}/highlights`, own)).highlight_id,
  )

  // What they are told, and where.
  const browser = aBrowser()
  await ok(
    call('PUT', `/api/users/me/devices/${formatId('device', newUuid())}`, {
      json: { kind: 'webpush', endpoint: `https://fcm.googleapis.com/${c.token}`, keys: browser.keys },
    }),
  )
  await sql('update devices set p256dh = $1, auth = $1, session_id = $1', [c.token])
  await ok(
    call('PUT', '/api/users/me/notification-preferences', {
      json: { preferences: [{ channel: 'push', template: 'Mention.v1', enabled: false }] },
    }),
  )
  const told = async (columns: string, values: unknown[]) => {
    const id = newUuid()
    await sql(
      `insert into notifications (id, org_id, template, event_id, ${columns}) values ($1, $2, 'EventInvitation.v1', $3,
        ${values.map((_, i) => `$${i + 4}`).join(', ')})`,
      [id, orgId, uuidOf('event', other), ...values],
    )
    await sql(
      `insert into notification_deliveries (id, org_id, notification_id, channel, destination, state)
        values ($1, $2, $3, 'email', $4, 'sent')`,
      [newUuid(), orgId, id, c.email],
    )
  }
  await told('email, invitation_id, generation', [c.email, byMail.id, 1])
  await told('phone_number, invitation_id, generation', [c.phone, byPhone.id, 1])
  await sql(
    `insert into webhooks (id, org_id, url, secret, last_answer) values ($1, $2, 'https://example.org', 'whsec_', $3)`,
    [newUuid(), orgId, c.text],
  )
  await sql(
    `insert into timeline_items (id, org_id, type, actor_id, ref_type, ref_id, at, summary)
      values ($1, $2, 'media_uploaded', $3, 'media', $4, now(), $5)`,
    [newUuid(), orgId, c.id, mediaId, c.text],
  )
  await sql(
    `insert into parked_events (consumer, message_id, subject, stream_seq, aggregate_id, reason, attempts, event)
      values ('timeline', $1, 'memory.v1.media', 1, $2, 'no', 1, jsonb_build_object('uploader_id', $3::text, 'filename', $4::text))`,
    [randomUUID(), mediaId, person.wireId, c.text],
  )
  const { export_id } = await post('/gdpr/export', {})
  await sql(
    `insert into data_export_entries (export_id, media_id, org_id, part, path, wanted_key, path_key, nth, bytes, taken_at, mime_type)
      values ($1, $2, $3, 1, $4, $4, $4, 1, 200, now(), 'video/mp4')`,
    [uuidOf('export', export_id), mediaId, orgId, c.text],
  )
  // By another person, of an event that is this person's.
  await asOwner(`/api/orgs/${org}/events/${event}/export`, {})
  await sql('update idempotency_keys set body_hash = $1 where user_id = $2', [c.token, c.id])
  return {
    ...{ person, call, event, draft, ownAlbum, sharedAlbum, othersAlbum, othersMedia, media },
    ...{ othersHighlight, ownHighlight, replied, mentioned },
  }
}
