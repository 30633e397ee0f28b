import type pg from 'pg'
import type { Uuid } from '../../lib/contract/ids.ts'

/** Ids of rows, by a name that tells what they are. */
export const oldId = (n: number): Uuid => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`

export const OLD = {
  org: oldId(1),
  owner: oldId(2),
  member: oldId(3),
  event: oldId(4),
  album: oldId(5),
  photo: oldId(6),
  trashed: oldId(7),
  comment: oldId(8),
  highlight: oldId(9),
  upload: oldId(10),
  invitation: oldId(11),
  archived: oldId(12),
  entry: oldId(13),
} as const
const { org, owner, member, event, album, photo, trashed, comment, highlight, upload, invitation, archived } = OLD

const AT = "timestamptz '2026-03-04 05:06:07.123456Z'"
const json = (value: unknown) => `'${JSON.stringify(value)}'::jsonb`
const FILM = json({
  items: [],
  skipped: [],
  hls: { renditions: [{ bytes: 4000 }] },
  images: { webp: { bytes: 300 }, thumb: { bytes: 20 } },
})

/**
 * A row at least of every table that there was before migration 0045, in their order. What people filled has a value in every
 * column that takes one.
 */
const ROWS: readonly [table: string, columns: Record<string, string>][] = [
  ['organizations', { id: `'${org}'`, name: "'Friends of old'" }],
  ...[owner, member].map((id, n): [string, Record<string, string>] => [
    'users',
    {
      ...{ id: `'${id}'`, issuer: "'https://id.example'", subject: `'${id}'`, email: `'p${n}@example.org'` },
      ...{ display_name: `'Person ${n}'`, locale: "'de'", phone_number: `'+491234${n}'` },
    },
  ]),
  ['memberships', { org_id: `'${org}'`, user_id: `'${owner}'`, role: "'owner'", joined_at: AT }],
  ['memberships', { org_id: `'${org}'`, user_id: `'${member}'`, role: "'member'", joined_at: AT }],
  ['sessions', { user_id: `'${owner}'`, sid: "'sid-of-old'", first_seen_at: AT, last_seen_at: AT }],
  ...[event, archived].map((id): [string, Record<string, string>] => [
    'events',
    {
      ...{ id: `'${id}'`, org_id: `'${org}'`, owner_id: `'${owner}'`, title: "'A day out'", description: "'By boat'" },
      ...{ start_at: AT, end_at: AT, location_name: "'Lake'", latitude: '47.5', longitude: '9.5', activated_at: AT },
      ...(id === archived ? { status: "'archived'", archived_at: AT } : { status: "'active'" }),
    },
  ]),
  [
    'event_participants',
    { event_id: `'${event}'`, user_id: `'${member}'`, org_id: `'${org}'`, status: "'accepted'", joined_at: AT },
  ],
  ...[photo, trashed].map((id): [string, Record<string, string>] => [
    'media',
    {
      ...{ id: `'${id}'`, org_id: `'${org}'`, uploader_id: `'${owner}'`, original_filename: "'IMG_1.jpg'" },
      ...{ mime_type: "'image/jpeg'", kind: "'image'", file_size_bytes: '1000', sha256: "repeat('a', 64)" },
      ...{ upload_status: "'completed'", conversion_state: "'succeeded'", image_file: "'image.jpg'", captured_at: AT },
      ...(id === trashed && { deleted_at: "now() - interval '2 days'", deleted_by: `'${member}'` }),
    },
  ]),
  [
    'albums',
    {
      ...{ id: `'${album}'`, org_id: `'${org}'`, owner_id: `'${owner}'`, event_id: `'${event}'`, title: "'Pictures'" },
      ...{ description: "'All of them'", visibility: "'organization'", status: "'PUBLIC'", next_position: '1' },
    },
  ],
  [
    'album_media',
    {
      ...{ album_id: `'${album}'`, media_id: `'${photo}'`, org_id: `'${org}'`, position: '0', caption: "'Us'" },
      ...{ is_cover: 'true', listed: 'true', added_by: `'${member}'` },
    },
  ],
  [
    'comments',
    {
      ...{
        id: `'${comment}'`,
        org_id: `'${org}'`,
        event_id: `'${event}'`,
        target_type: "'media'",
        target_id: `'${photo}'`,
      },
      ...{ media_id: `'${photo}'`, audience: "'album'", author_id: `'${member}'`, body: "'Remember?'", version: '2' },
      ...{ mentions_given: `array['${owner}']::uuid[]`, mentions: `array['${owner}']::uuid[]` },
    },
  ],
  [
    'comment_versions',
    {
      ...{ comment_id: `'${comment}'`, version: '1', org_id: `'${org}'`, body: "'Remembr?'", media_ids: "'{}'" },
      ...{ mentions: "'{}'", written_at: AT },
    },
  ],
  [
    'comment_media',
    { comment_id: `'${comment}'`, position: '0', org_id: `'${org}'`, event_id: `'${event}'`, media_id: `'${photo}'` },
  ],
  [
    'reactions',
    {
      ...{ id: `'${oldId(20)}'`, org_id: `'${org}'`, event_id: `'${event}'`, target_type: "'comment'" },
      ...{ target_id: `'${comment}'`, user_id: `'${owner}'`, emoji: "'🎉'", audience: "'album'" },
    },
  ],
  [
    'invitations',
    {
      ...{
        id: `'${invitation}'`,
        org_id: `'${org}'`,
        event_id: `'${event}'`,
        slug: "'ABCDEFGH'",
        email: "'guest@example.org'",
      },
      ...{ message: "'Come!'", token_expires_at: `${AT} + interval '30 days'`, invited_by: `'${owner}'` },
    },
  ],
  [
    'notifications',
    {
      ...{ id: `'${oldId(21)}'`, org_id: `'${org}'`, template: "'EventInvitation.v1'", event_id: `'${event}'` },
      ...{ email: "'guest@example.org'", invitation_id: `'${invitation}'`, generation: '1' },
    },
  ],
  [
    'notifications',
    {
      ...{ id: `'${oldId(22)}'`, org_id: `'${org}'`, template: "'Mention.v1'", event_id: `'${event}'` },
      ...{ user_id: `'${owner}'`, comment_id: `'${comment}'` },
    },
  ],
  [
    'notification_deliveries',
    {
      ...{ id: `'${oldId(23)}'`, org_id: `'${org}'`, notification_id: `'${oldId(22)}'`, channel: "'email'" },
      ...{ destination: "'p0@example.org'", state: "'sent'", attempts: '1' },
    },
  ],
  ['notification_optouts', { address_hash: "repeat('0', 64)", template: "'Mention.v1'" }],
  ['notification_pauses', { channel: "'webhook'", receiver: "'r'", failures: '3', reason: "'http_500'" }],
  ['notification_channels', { channel: "'email'", failures: '1', reason: "'down'" }],
  [
    'notification_preferences',
    { user_id: `'${owner}'`, channel: "'email'", template: "'Mention.v1'", enabled: 'false' },
  ],
  [
    'devices',
    {
      ...{ id: `'${oldId(24)}'`, user_id: `'${owner}'`, kind: "'webpush'", address: "'https://push.example/1'" },
      ...{ p256dh: "'key'", auth: "'auth'", session_id: "'sid-of-old'" },
    },
  ],
  ['webhooks', { id: `'${oldId(25)}'`, org_id: `'${org}'`, url: "'https://hooks.example'", secret: "'whsec_x'" }],
  [
    'music_tracks',
    {
      ...{ id: `'${oldId(26)}'`, title: "'Song'", licence: "'CC0'", license: "'CC0'", attribution: "'Someone'" },
      ...{ duration_sec: '61.5', mime_type: "'audio/mp4'", file_size_bytes: '9000' },
    },
  ],
  [
    'highlights',
    {
      ...{
        id: `'${highlight}'`,
        org_id: `'${org}'`,
        created_by: `'${member}'`,
        album_id: `'${album}'`,
        title: "'Best of'",
      },
      ...{ transition: "'fade'", music_track_id: `'${oldId(26)}'`, orientation: "'auto'", fill: "'blur'" },
      ...{ ken_burns: 'true', show_title: 'true', captions: "'caption'", skip_broken: 'true' },
      ...{ estimated_duration_sec: '12', status: "'completed'", render_state: "'succeeded'", duration_sec: '12.5' },
      ...{ render_admitted_at: "now() - interval '2 days'", finished_at: "now() - interval '2 days'" },
      ...{ output_prefix: `'org/${org}/highlights/${highlight}/v1/'`, hls_master: "'m.m3u8'", manifest: FILM },
    },
  ],
  [
    'highlight_items',
    {
      ...{ highlight_id: `'${highlight}'`, position: '0', org_id: `'${org}'`, media_id: `'${photo}'`, seconds: '4' },
      ...{ source_id: `'${photo}'`, uploader_id: `'${owner}'`, type: "'image'", caption: "'Us'" },
    },
  ],
  [
    'uploads',
    {
      ...{
        id: `'${upload}'`,
        org_id: `'${org}'`,
        uploader_id: `'${member}'`,
        media_id: `'${oldId(27)}'`,
        layout: "'staged'",
      },
      ...{ filename: "'film.mp4'", mime_type: "'video/mp4'", file_size_bytes: '5000', chunk_size_bytes: '5000' },
      ...{
        total_chunks: '1',
        expires_at: "now() + interval '1 day'",
        absolute_expires_at: "now() + interval '7 days'",
      },
    },
  ],
  [
    'upload_chunks',
    {
      ...{ org_id: `'${org}'`, upload_id: `'${upload}'`, chunk_index: '0', size_bytes: '5000' },
      ...{ sha256: "repeat('b', 64)", etag: "'e'" },
    },
  ],
  ['object_intents', { media_id: `'${oldId(27)}'`, org_id: `'${org}'` }],
  ['purged_media', { media_id: `'${oldId(28)}'`, org_id: `'${org}'`, next_look_at: AT }],
  [
    'timeline_items',
    {
      ...{ id: `'${oldId(29)}'`, org_id: `'${org}'`, type: "'comment_posted'", actor_id: `'${member}'`, at: AT },
      ...{ ref_type: "'comment'", ref_id: `'${comment}'`, event_id: `'${event}'`, summary: "'Remember?'" },
    },
  ],
  ['feed_versions', { org_id: `'${org}'`, n: '7' }],
  ['media_months', { org_id: `'${org}'`, month: "'2026-03-01'", media_count: '1' }],
  ['media_month_changes', { org_id: `'${org}'`, month: "'2026-03-01'", change: '0' }],
  ['user_storage', { user_id: `'${owner}'`, media_bytes: '2000' }],
  [
    'audit_log',
    {
      ...{ id: `'${OLD.entry}'`, org_id: `'${org}'`, actor_id: `'${owner}'`, action: "'EVENT_CREATE'" },
      ...{ resource_type: "'event'", resource_id: `'${event}'`, result: "'success'", ip_address: "'192.0.2.9'" },
      ...{ user_agent: "'Firefox'", request_id: "'req_old'", details: json({ status: 'draft' }) },
      ...{ occurred_at: AT, client_request_id: "'mine'" },
    },
  ],
  [
    'outbox',
    {
      ...{
        id: `'${oldId(30)}'`,
        org_id: `'${org}'`,
        area: "'event'",
        aggregate_id: `'${event}'`,
        aggregate_version: '1',
      },
      ...{ type: "'EventCreated'", payload: json({ event_id: event }), published_at: AT, stream_seq: '4' },
    },
  ],
  ['inbox', { consumer: "'timeline'", message_id: `'${oldId(30)}'` }],
  [
    'parked_events',
    {
      ...{ consumer: "'timeline'", message_id: `'${oldId(31)}'`, subject: "'s'", stream_seq: '5', attempts: '5' },
      ...{ event: json({ of: 'old' }), reason: "'broken'" },
    },
  ],
  ['suspected_events', { consumer: "'timeline'", message_id: `'${oldId(31)}'`, attempts: '2' }],
  ['event_streams', { name: "'events'", created_at: AT }],
  [
    'idempotency_keys',
    {
      ...{ user_id: `'${owner}'`, method: "'POST'", route: "'/r'", key: "'k'", state: "'done'", locked_until: AT },
      ...{ holder: `'${oldId(32)}'`, status: '201', response: json({ ok: true }) },
    },
  ],
  ['jwks_cache', { issuer: "'https://id.example'", jwks: json({ keys: [] }), fetched_at: AT }],
  ['rate_limits', { key: "'k'", points: '3', expire: '1' }],
]

export async function addOldRows(admin: pg.Client): Promise<void> {
  await admin.query('begin')
  for (const [table, columns] of ROWS) {
    // Some rows are there already, by triggers.
    await admin.query(
      `insert into ${table} (${Object.keys(columns).join(', ')}) values (${Object.values(columns).join(', ')}) on conflict do nothing`,
    )
  }
  await admin.query('commit')
}
