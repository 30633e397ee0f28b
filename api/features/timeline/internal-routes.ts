import * as z from 'zod'
import { type IdKind, parseId, type Uuid } from '../../../lib/contract/ids.ts'
import { notFound } from '../../../lib/contract/problem.ts'
import { organizationOf } from '../../db/organization-of.ts'
import type { ApiDeps } from '../../deps.ts'
import { internal, type Route, route } from '../../http/route.ts'
import { fact, onCaller } from '../../permissions/rule.ts'
import { bodyId, exampleId, inputTime, optional, outputId, pathId, text } from '../../requests/schemas.ts'
import { hideItem, insertItem } from './commands.ts'
import { RefType, TimelineType } from './timeline-item.ts'

const service = fact('service', 'services of the cluster that the installation names', () => true)
const actions = {
  insert: onCaller('timeline_item.insert', 'insert a timeline item', service),
  hide: onCaller('timeline_item.hide', 'hide a timeline item', service),
}

/** How far the clock of a service may be ahead. */
const CLOCKS_MS = 60_000

const NewItem = z
  .object({
    type: TimelineType,
    actor_id: bodyId('user').meta({ description: 'Who did it' }),
    org_id: bodyId('organization').meta({ description: 'The organization in whose timeline the item is' }),
    ref_type: RefType,
    ref_id: z.string().max(64).meta({ description: 'Identifier of what the item is about, of the kind in `ref_type`' }),
    summary: optional(text(1, 200)),
    created_at: optional(
      inputTime().refine((time) => time.getTime() <= Date.now() + CLOCKS_MS, 'must not be in the future'),
    ).meta({ description: 'When it happened; now by default. A `member_joined` item has the time of the membership' }),
    dedupe_key: text(1, 200).meta({
      description: 'A repeat with the same key in the same organization inserts nothing',
    }),
  })
  .transform((item, ctx) => {
    const refId: Uuid | undefined = parseId(item.ref_type satisfies IdKind, item.ref_id)
    const refuse = (message: string) => {
      ctx.addIssue({ code: 'custom', path: ['ref_id'], message })
      return z.NEVER
    }
    if (refId === undefined) return refuse(`is no id of a ${item.ref_type}`)
    // Shown as long as the membership of the actor lasts: an item about another one would never be.
    if (item.type === 'member_joined' && refId !== item.actor_id) return refuse('must be the member, as `actor_id` is')
    return { ...item, ref_id: refId }
  })

const Inserted = z.object({ timeline_item_id: outputId('timelineItem') }).meta({ id: 'InsertedTimelineItem' })

const common = { tags: ['Timeline'], atRoot: true }

export function internalTimelineRoutes({ db }: ApiDeps): Route[] {
  return [
    route({
      ...common,
      method: 'post',
      path: '/api/timeline',
      operationId: 'insertTimelineItem',
      summary: 'Insert a timeline item',
      action: actions.insert,
      body: NewItem,
      status: 201,
      alsoStatus: { 200: 'The organization has an item with this key' },
      problems: ['NOT_FOUND'],
      response: Inserted,
      examples: {
        request: {
          type: 'event_created',
          actor_id: exampleId('user'),
          org_id: exampleId('organization'),
          ref_type: 'event',
          ref_id: exampleId('event'),
          dedupe_key: 'import-2026-11-23-0001',
        },
        response: { timeline_item_id: exampleId('timelineItem') },
      },
      async handle({ body }) {
        const { id, isNew } = await db.inTransaction({ org: body.org_id }, (tx) =>
          insertItem(tx, {
            type: body.type,
            actorId: body.actor_id,
            orgId: body.org_id,
            refType: body.ref_type,
            refId: body.ref_id,
            summary: body.summary,
            createdAt: body.created_at,
            dedupeKey: body.dedupe_key,
          }),
        )
        return { data: { timeline_item_id: id }, ...(!isNew && { status: 200 }) }
      },
    }),
    route({
      ...common,
      method: 'delete',
      path: '/api/timeline/{timeline_item_id}',
      operationId: 'hideTimelineItem',
      summary: 'Hide a timeline item',
      action: actions.hide,
      params: z.object({ timeline_item_id: pathId('timelineItem') }),
      status: 204,
      async handle({ params }) {
        const id = params.timeline_item_id
        const orgId = await organizationOf(db, 'timeline_items', id)
        if (orgId === undefined) throw notFound()
        // A repeat hides nothing more.
        await db.inTransaction({ org: orgId }, (tx) => hideItem(tx, orgId, id))
        return { data: null }
      },
    }),
  ].map(internal)
}
