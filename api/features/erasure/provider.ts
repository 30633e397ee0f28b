import { formatId, type Uuid } from '../../../lib/contract/ids.ts'
import { signedHeaders } from '../../../lib/runtime/standard-webhooks.ts'

/** Accounts at the identity provider, which this program does not keep. */
export interface ProviderAccounts {
  /** Resolves once the account is gone, also if it was before. `id` is the same for every repeat. */
  remove(account: { issuer: string; subject: string }, id: Uuid, signal?: AbortSignal): Promise<void>
}

const TIMEOUT_MS = 15_000

/**
 * A service of the installation that removes accounts with the provider's own API. It gets a signed request of the form of
 * Standard Webhooks, `account.erased`, and answers 2xx once the account is gone; 404 and 410 say that it was before.
 */
export const accountsByWebhook = (o: { url: string; secret: string }): ProviderAccounts => ({
  async remove(account, erasureId, signal) {
    const id = formatId('anonymization', erasureId)
    const body = JSON.stringify({ type: 'account.erased', timestamp: new Date().toISOString(), data: account })
    const answer = await fetch(o.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...signedHeaders([o.secret], { id, body }) },
      body,
      redirect: 'error',
      signal: AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), ...(signal ? [signal] : [])]),
    })
    await answer.body?.cancel()
    if (!answer.ok && answer.status !== 404 && answer.status !== 410) {
      throw new Error(`the service of the identity provider answered ${answer.status}`)
    }
  },
})
