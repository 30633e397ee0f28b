import type * as z from 'zod'
import { notFound } from '../../../lib/contract/problem.ts'
import type { Clock } from '../../../lib/runtime/clock.ts'
import type { Database } from '../../db/db.ts'
import { organizationOf } from '../../db/organization-of.ts'
import type { RawReply } from '../../requests/bytes.ts'
import type { Shown } from './invitation.ts'
import { findBySlug, findLive, findShownInvitation } from './link-queries.ts'
import type { InvitationLinks } from './links.ts'
import type { QrPictures } from './qr-pictures.ts'
import { isTokenOf, type TokenContent } from './token.ts'

/** What anyone with the slug may see, and the message for those who present the token. */
export async function showBySlug(
  db: Database,
  slug: string,
  token: TokenContent | undefined,
): Promise<z.input<typeof Shown>> {
  const at = await db.readAtOnce({}, (tx) => findBySlug(tx, slug))
  const row = at && (await db.readAtOnce({ org: at.orgId }, (tx) => findShownInvitation(tx, at.orgId, at.id)))
  if (!row) throw notFound()
  const message = isTokenOf(row, token) && !row.isExpired ? row.message : null
  return { invitation_id: row.id, title: row.title, host_name: row.hostName, message }
}

/** The QR code of the link that works now: after a response or a reissue the address shows nothing. */
export async function showQr(
  { db, clock, links, pictures }: { db: Database; clock: Clock; links: InvitationLinks; pictures: QrPictures },
  { token, path }: { token: string; path: string },
): Promise<RawReply> {
  const wanted = links.openQr(token, path, clock.now().getTime() / 1000)
  if (!wanted) throw notFound()
  const { id, generation } = wanted
  const orgId = await organizationOf(db, 'invitations', id)
  const row = orgId && (await db.read({ org: orgId }, (tx) => findLive(tx, orgId, id, generation)))
  if (!row) throw notFound()
  const expires = row.tokenExpiresAt.getTime() / 1000
  // Everything that the link is made of except the slug, which never changes.
  const key = `${id} ${generation} ${expires}`
  const body = await pictures(key, () => links.inviteUrl({ id, slug: row.slug, generation, expires }))
  // The picture holds a credential.
  return { status: 200, headers: { 'Content-Type': 'image/png', 'Cache-Control': 'private, no-store' }, body }
}
