import type { Uuid } from '../../../lib/contract/ids.ts'
import type { ApiConfig } from '../../config.ts'
import { expiryOf, signToken } from '../media/delivery/token.ts'
import { invitationTokens, type TokenContent } from './token.ts'

/** What the links of an invitation are made of. */
export interface Linked extends TokenContent {
  slug: string
}

/** Where links lead, and what signs them. */
export type LinkSettings = Pick<ApiConfig, 'LINK_KEYS' | 'PUBLIC_URL' | 'BASE_PATH' | 'APP_URL' | 'INVITATION_QR'>

/** Links are minted whenever one is needed; nothing stores them. */
export function invitationLinks(config: LinkSettings) {
  const { LINK_KEYS: ring, PUBLIC_URL, BASE_PATH, APP_URL = PUBLIC_URL, INVITATION_QR } = config
  const tokens = invitationTokens(ring)
  return {
    readToken: tokens.read,
    mintToken: tokens.mint,
    /** The token is in the fragment, which browsers send to no server: it reaches no log, referrer or mail scanner. */
    inviteUrl: async (invitation: Linked) => `${APP_URL}/i/${invitation.slug}#t=${await tokens.mint(invitation)}`,
    /** Null where the configuration switches QR codes off. */
    qrUrl({ id, generation, expires }: TokenContent): string | null {
      if (!INVITATION_QR) return null
      const path = `${id}/${generation}.png`
      return `${PUBLIC_URL}${BASE_PATH}/q/${signToken(ring, prefixOf(path), expires)}/${path}`
    },
    /** The invitation whose QR code a link shows; undefined if the link is forged or has expired. */
    openQr(token: string, path: string, nowSeconds: number): { id: Uuid; generation: number } | undefined {
      const [, id, generation] = QR_PATH.exec(path) ?? []
      if (!id || !generation || expiryOf(ring, token, prefixOf(path), nowSeconds) === undefined) return undefined
      return { id, generation: Number(generation) }
    },
  }
}
export type InvitationLinks = ReturnType<typeof invitationLinks>

/** No path of a media item begins like this, so neither kind of link opens the other. */
const prefixOf = (path: string) => `invitation/${path}`
const QR_PATH = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\/([1-9]\d{0,8})\.png$/
