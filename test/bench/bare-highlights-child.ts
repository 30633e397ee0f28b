import { newUuid } from '../../lib/contract/ids.ts'
import { bareServer, json } from './bare-server.ts'

/**
 * What the creation of a highlight is compared with: Express, pg, and the statements that write a highlight, its items,
 * its queue event and its audit entry, one after another in a transaction. No sign-in, no membership, no look at the
 * media items and no lock on them, no row-level security, no validation, no log.
 */
const { app, inTransaction } = bareServer()
const { BARE_USER: user } = process.env

app.post('/:org', json, async (req, res) => {
  const { org } = req.params
  const { title, media_ids: media } = req.body as { title: string; media_ids: string[] }
  const id = newUuid()
  await inTransaction(async (client) => {
    await client.query(
      `insert into highlights (id, org_id, created_by, title, transition, orientation, fill, ken_burns, show_title,
        captions, skip_broken, estimated_duration_sec)
        values ($1, $2, $3, $4, 'cut', 'auto', 'blur', true, true, 'none', false, $5)`,
      [id, org, user, title, media.length * 4],
    )
    await client.query(
      `insert into highlight_items (highlight_id, position, org_id, media_id, source_id, uploader_id, type, seconds,
        caption) select $1, place - 1, $2, id, id, $3, 'image', 4, ''
        from unnest($4::uuid[]) with ordinality as given (id, place)`,
      [id, org, user, media],
    )
    await client.query(
      `insert into outbox (id, org_id, area, aggregate_id, aggregate_version, type, payload)
        values ($1, $2, 'highlight', $3, 1, 'HighlightRequested', $4)`,
      [newUuid(), org, id, JSON.stringify({ highlight_id: id, org_id: org, generation: 1 })],
    )
    await client.query(
      `insert into audit_log (id, org_id, actor_id, action, resource_type, resource_id, result, ip_address, request_id, details)
        values ($1, $2, $3, 'MEDIA_UPLOAD', 'highlight', $4, 'success', $5, $6, $7)`,
      [newUuid(), org, user, id, req.ip, newUuid(), JSON.stringify({ operation: 'highlight', highlight_id: id })],
    )
  })
  res.status(201).json({ highlight_id: id, status: 'processing', estimated_duration_sec: media.length * 4 })
})
