import { randomUUID } from 'node:crypto'
import { type Answer, fakeMp4, formOf, type Person, type TestApi, uuidOf } from './api.ts'
import { made, type Scene, type Subject, shown } from './can-scene.ts'
import { anAlbum } from './comments.ts'
import { anEvent, takePart } from './events.ts'
import { aMember, anOrganization } from './organizations.ts'

/** Resources of every kind that answers show with `can`, and requests for every action on them. */
export function scenesOf(api: TestApi): Scene[] {
  const { org, people, call } = api
  const { owner, admin, member, another } = people
  const orgId = uuidOf('organization', org)
  const callers = { owner, admin, member, another }
  const inOrg = `/api/orgs/${org}`
  const run = (text: string, values: unknown[]) => api.database.admin.query(text, values)
  const post = async (who: Person, path: string, json?: unknown) => made(call(who, 'POST', path, { json }))
  const itemOf = async (who: Person): Promise<string> => {
    const form = formOf(fakeMp4(1000))
    return (await made(call(who, 'POST', `/api/media/${org}/single`, { form }))).media_id
  }
  const found = (list: Promise<Answer['data'] | undefined>, name: string, id: string, field: string) =>
    list.then((data) => data?.[name].find((one: Record<string, string>) => one[field] === id))

  const eventIn = (status: 'draft' | 'active' | 'archived') => anEvent(api, { org, orgId, owner: member, status })
  const anyEvent = (status: Parameters<typeof eventIn>[0], album?: string) => async (): Promise<Subject> => {
    const event = await eventIn(status)
    await takePart(api, { event, orgId, who: another })
    if (album) await anAlbum(api, event, { orgId, owner: member, status: album })
    const id = event.wireId
    const path = `${inOrg}/events/${id}`
    const comments = `${path}/meta/${id}/comments`
    return {
      show: (who) => shown(call(who, 'GET', path)),
      attempts: {
        'event.read': () => ({ method: 'GET', path }),
        'event.update': () => ({ method: 'PUT', path, json: { title: randomUUID() } }),
        'event.activate': () => ({ method: 'POST', path: `${path}/activate` }),
        'event.archive': () => ({ method: 'POST', path: `${path}/archive` }),
        'event.delete': () => ({ method: 'DELETE', path }),
        'event.invite': () => ({ method: 'POST', path: `${path}/invitations`, json: address() }),
        'event.list_invitations': () => ({ method: 'GET', path: `${path}/invitations` }),
        'event.export': async (who) => {
          // A person may start few.
          await run('delete from data_exports where user_id = $1', [who.id])
          return { method: 'POST', path: `${path}/export` }
        },
        'event.leave': () => ({ method: 'DELETE', path: `${path}/participants/me` }),
        'event.remove_participant': () => ({ method: 'DELETE', path: `${path}/participants/${another.wireId}` }),
        'comment.read': () => ({ method: 'GET', path: comments }),
        'comment.create': () => ({ method: 'POST', path: comments, json: { body: 'Hello' } }),
        'reaction.add': () => ({
          method: 'POST',
          path: `${path}/reactions/meta`,
          json: { action_id: id, emoji: '🎉' },
        }),
      },
    }
  }

  /** `event`: of what event. */
  const anyAlbum = (status: string, event?: 'active' | 'archived') => async (): Promise<Subject> => {
    const of = event && (await eventIn(event))
    const { album_id: id } = await post(member, `${inOrg}/albums`, { title: 'Album' })
    const media = await itemOf(member)
    const path = `${inOrg}/albums/${id}`
    await post(member, `${path}/media`, { media_id: media })
    await run('update albums set status = $2, event_id = $3 where id = $1', [
      uuidOf('album', id),
      status,
      of ? of.id : null,
    ])
    const other = status === 'DRAFT' ? 'PUBLIC' : 'DRAFT'
    return {
      show: (who) => shown(call(who, 'GET', path)),
      attempts: {
        'album.read': () => ({ method: 'GET', path }),
        'album.update': () => ({ method: 'PATCH', path, json: { title: randomUUID() } }),
        'album.add_media': async (who) => ({
          method: 'POST',
          path: `${path}/media`,
          json: { media_id: await itemOf(who) },
        }),
        'album.set_status': () => ({
          method: 'PUT',
          path: '/api/v1/albums/status',
          json: { album_id: id, status: other },
        }),
        'album.delete': () => ({ method: 'DELETE', path }),
        'highlight.create_in_album': () => ({
          method: 'POST',
          path: `${path}/highlights`,
          json: { title: 'Summer', media_ids: [media] },
        }),
      },
    }
  }

  /** `days`: how long ago it was deleted. */
  const anyMedia =
    (by?: Person, days = 0) =>
    async (): Promise<Subject> => {
      const id = await itemOf(member)
      const path = `/api/media/${org}/${id}`
      if (by) await made(call(by, 'DELETE', path))
      if (days > 0) {
        await run('update media set deleted_at = now() - make_interval(days => $2) where id = $1', [
          uuidOf('media', id),
          days,
        ])
      }
      const trash = (who: Person) => call(who, 'GET', `/api/media/${org}/trash?limit=100`)
      return {
        show: async (who) => (by ? found(shown(trash(who)), 'media', id, 'media_id') : shown(call(who, 'GET', path))),
        attempts: {
          'media.read': () => ({ method: 'GET', path }),
          'media.delete': () => ({ method: 'DELETE', path }),
          'media.restore': () => ({ method: 'POST', path: `${path}/restore` }),
        },
      }
    }

  const anyComment = (status: 'active' | 'archived', how?: 'old' | 'deleted') => async (): Promise<Subject> => {
    const event = await eventIn('active')
    const thread = `${inOrg}/events/${event.wireId}/meta/${event.wireId}/comments`
    const { comment_id: id } = await post(another, thread, { body: 'Hello' })
    const path = `${thread}/${id}`
    if (how === 'deleted') {
      const replies = `${inOrg}/events/${event.wireId}/comment/${id}/comments`
      await post(member, replies, { body: 'A reply' })
      await made(call(another, 'DELETE', path))
    }
    if (how === 'old') {
      await run(`update comments set created_at = now() - interval '16 minutes' where id = $1`, [uuidOf('comment', id)])
    }
    await run('update events set status = $2 where id = $1', [event.id, status])
    return {
      show: (who) => shown(call(who, 'GET', `${path}?include_deleted=true`)),
      attempts: {
        'comment.edit': () => ({ method: 'PATCH', path, json: { body: randomUUID() } }),
        'comment.delete': () => ({ method: 'DELETE', path }),
      },
    }
  }

  const anyHighlight = (status?: string) => async (): Promise<Subject> => {
    const media = await itemOf(another)
    const json = { title: 'Summer', media_ids: [media] }
    const { highlight_id: id } = await post(another, `/api/media/${org}/highlights`, json)
    if (status) {
      const { album_id } = await post(member, `${inOrg}/albums`, { title: 'Album' })
      await run('update albums set status = $2 where id = $1', [uuidOf('album', album_id), status])
      await run('update highlights set album_id = $2 where id = $1', [
        uuidOf('highlight', id),
        uuidOf('album', album_id),
      ])
    }
    const path = `/api/media/${org}/highlights/${id}`
    return {
      show: (who) => shown(call(who, 'GET', path)),
      attempts: {
        'highlight.read': () => ({ method: 'GET', path }),
        'highlight.delete': () => ({ method: 'DELETE', path }),
      },
    }
  }

  const anyInvitation = (how: string) => async (): Promise<Subject> => {
    const event = await eventIn(how === 'draft' ? 'draft' : 'active')
    const list = `${inOrg}/events/${event.wireId}/invitations`
    const { invitation_id: id } = await post(member, list, { uuid: admin.wireId })
    const path = `/api/invitations/${id}`
    if (how === 'expired') {
      await run(`update invitations set token_expires_at = now() - interval '1 second' where id = $1`, [
        uuidOf('invitation', id),
      ])
    }
    if (how === 'accepted') await post(admin, `${path}/respond`, { response: 'accept' })
    if (how === 'revoked') {
      await run(`update invitations set status = 'revoked' where id = $1`, [uuidOf('invitation', id)])
    }
    if (how === 'archived') await run(`update events set status = 'archived' where id = $1`, [event.id])
    return {
      show: (who) => found(shown(call(who, 'GET', list)), 'invitations', id, 'invitation_id'),
      attempts: {
        'invitation.respond': () => ({ method: 'POST', path: `${path}/respond`, json: { response: 'accept' } }),
        'invitation.reissue': () => ({ method: 'POST', path: `${path}/reissue` }),
      },
    }
  }

  const anyUpload = (how: 'empty' | 'whole' | 'merged' | 'aborted' | 'expired') => async (): Promise<Subject> => {
    const uploads = `/api/media/${org}/upload`
    const json = { filename: 'a.mp4', mime_type: 'video/mp4', file_size_bytes: 1000, chunk_size_bytes: 1000 }
    const { upload_id: id } = await post(member, uploads, json)
    const path = `${uploads}/${id}`
    const bytes = fakeMp4(1000)
    if (how === 'whole' || how === 'merged') await made(call(member, 'PUT', `${path}/0`, { bytes }))
    if (how === 'merged') await post(member, `/api/media/${org}/merge`, { upload_id: id })
    if (how === 'aborted') await made(call(member, 'DELETE', path))
    if (how === 'expired') {
      await run(`update uploads set expires_at = now() - interval '1 second' where id = $1`, [uuidOf('upload', id)])
    }
    return {
      show: (who) => shown(call(who, 'GET', path)),
      attempts: {
        'upload.read': () => ({ method: 'GET', path }),
        'upload.send': () => ({ method: 'PUT', path: `${path}/0`, bytes }),
        'upload.merge': () => ({ method: 'POST', path: `/api/media/${org}/merge`, json: { upload_id: id } }),
        'upload.abort': () => ({ method: 'DELETE', path }),
      },
    }
  }

  /** A member with this role, in an organization of their own with the callers. */
  const roles = new Map<Person, string>([
    [owner, 'owner'],
    [admin, 'admin'],
    [member, 'member'],
  ])
  const anyMember =
    (about: (others: typeof people, own: string) => Promise<Person>, isLast = false) =>
    async () => {
      const { id: orgId, wireId } = await anOrganization(api)
      for (const [who, role] of roles) {
        const given = isLast && role === 'owner' ? 'owner' : role
        await run('insert into memberships (org_id, user_id, role) values ($1, $2, $3)', [orgId, who.id, given])
      }
      if (!isLast) await aMember(api, orgId, { role: 'owner' })
      const target = await about(people, orgId)
      const list = `/api/organizations/${wireId}/members`
      const path = `${list}/${target.wireId}`
      const show = (who: Person) => found(shown(call(who, 'GET', list)), 'members', target.id, 'user_id')
      return {
        show,
        attempts: {
          'member.change_role': async (who: Person) => ({
            method: 'PATCH' as const,
            path,
            json: { role: (await show(who)).role === 'member' ? 'admin' : 'member' },
          }),
          'member.remove': () => ({ method: 'DELETE' as const, path }),
        },
      }
    }

  return [
    {
      kind: 'event',
      callers,
      states: {
        draft: anyEvent('draft'),
        active: anyEvent('active'),
        archived: anyEvent('archived'),
        'draft with an archived album': anyEvent('draft', 'ARCHIVE'),
      },
    },
    {
      kind: 'album',
      callers,
      states: {
        draft: anyAlbum('DRAFT'),
        public: anyAlbum('PUBLIC'),
        archived: anyAlbum('ARCHIVE'),
        'of an active event': anyAlbum('PUBLIC', 'active'),
        'of an archived event': anyAlbum('PUBLIC', 'archived'),
      },
    },
    {
      kind: 'media',
      callers,
      states: {
        visible: anyMedia(),
        'deleted by its uploader': anyMedia(member),
        'deleted by an administrator': anyMedia(admin),
        lost: anyMedia(member, 31),
      },
    },
    {
      kind: 'comment',
      callers,
      states: {
        new: anyComment('active'),
        old: anyComment('active', 'old'),
        deleted: anyComment('active', 'deleted'),
        'of an archived event': anyComment('archived'),
      },
    },
    {
      kind: 'highlight',
      callers,
      states: { 'without an album': anyHighlight(), public: anyHighlight('PUBLIC'), draft: anyHighlight('DRAFT') },
    },
    {
      kind: 'invitation',
      callers,
      states: Object.fromEntries(
        ['pending', 'expired', 'accepted', 'revoked', 'draft', 'archived'].map((how) => [how, anyInvitation(how)]),
      ),
    },
    {
      kind: 'upload',
      callers: { admin, member },
      states: Object.fromEntries(
        (['empty', 'whole', 'merged', 'aborted', 'expired'] as const).map((how) => [how, anyUpload(how)]),
      ),
    },
    {
      kind: 'membership',
      callers: { owner, admin, member },
      states: {
        member: anyMember((_, orgId) => aMember(api, orgId, {})),
        administrator: anyMember((_, orgId) => aMember(api, orgId, { role: 'admin' })),
        'one of several owners': anyMember(async ({ owner }) => owner),
        'the last owner': anyMember(async ({ owner }) => owner, true),
        oneself: anyMember(async ({ member }) => member),
      },
    },
  ]
}

const address = () => ({ email: `${randomUUID()}@example.org` })
