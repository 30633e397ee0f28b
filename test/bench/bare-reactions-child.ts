import { newUuid } from '../../lib/contract/ids.ts'
import { bareServer, json } from './bare-server.ts'

/**
 * What reactions are compared with: Express, pg, and the statements that write a reaction, its queue event and its audit
 * entry and count the target, one after another in a transaction. No sign-in, no membership, no look at the event, no
 * row-level security, no validation, no log.
 */
const { app, inTransaction } = bareServer()
app.post('/:org/:event', json, async (req, res) => {
  const { org, event } = req.params
  const { user, emoji } = req.body as { user: string; emoji: string }
  const { id, counts } = await inTransaction(async (client) => {
    const { rows } = await client.query(
      `insert into reactions (id, org_id, event_id, target_type, target_id, user_id, emoji)
        values ($1, $2, $3, 'meta', $3, $4, $5)
        on conflict (event_id, target_type, target_id, user_id)
          do update set emoji = excluded.emoji, version = reactions.version + 1, updated_at = now()
          where reactions.emoji <> excluded.emoji
        returning id, version`,
      [newUuid(), org, event, user, emoji],
    )
    const [{ id, version }] = rows
    const payload = { reaction_id: id, target_type: 'meta', target_id: event, event_id: event, org_id: org }
    await client.query(
      `insert into outbox (id, org_id, area, aggregate_id, aggregate_version, type, payload)
        values ($1, $2, 'reaction', $3, $4, 'reaction_added', $5)`,
      [newUuid(), org, id, version, JSON.stringify({ ...payload, user_id: user, emoji })],
    )
    await client.query(
      `insert into audit_log (id, org_id, actor_id, action, resource_type, resource_id, result, ip_address, request_id, details)
        values ($1, $2, $3, 'REACTION_CREATE', 'reaction', $4, 'success', $5, $6, $7)`,
      [newUuid(), org, user, id, req.ip, newUuid(), JSON.stringify({ event_id: event })],
    )
    const counts = await client.query(
      `select emoji, count(*)::int as n from reactions
        where event_id = $1 and target_type = 'meta' and target_id = $1 group by emoji`,
      [event],
    )
    return { id, counts: counts.rows }
  })
  res.status(201).json({ reaction_id: id, emoji, counts })
})
