import { type EraseDeps, type EraseStep, type PersonalPart, step } from '../../personal/part.ts'
import { writeEntry } from './ledger.ts'
import { accountsByWebhook, type ProviderAccounts } from './provider.ts'
import { promoteLeft } from './queries.ts'
import { ErasureSettings } from './settings.ts'

/** Of the worker's environment, which the worker has checked at its start. */
const settingsOf = ({ config }: EraseDeps) => ErasureSettings.parse(config)

const steps: readonly EraseStep[] = [
  {
    name: 'erasure.ledger',
    phase: 'access',
    does: 'the ledger in the object store learns of the erasure, so that no backup brings the person back',
    async run(deps, { userId }) {
      await writeEntry(deps.store, settingsOf(deps).ERASURE_KEY, { userId, at: new Date() })
      return { counts: {} }
    },
  },
  step({
    name: 'erasure.owners',
    phase: 'uploads',
    does: 'an organization that someone has joined while its only member closed the account gets that member as its owner',
    run: ({ db }, person) => db.inTransaction({}, async (tx) => ({ owners: await promoteLeft(tx, person) })),
  }),
  {
    name: 'erasure.provider',
    phase: 'texts',
    does: 'the account at the identity provider is removed, where the installation has a service for it',
    async run(deps, { erasureId, issuer, subject }) {
      const accounts = accountsOf(settingsOf(deps))
      await accounts?.remove({ issuer, subject }, erasureId, deps.signal)
      return { counts: accounts ? { provider_accounts: 1 } : {} }
    },
  },
]

function accountsOf({
  IDENTITY_ERASURE_URL: url,
  IDENTITY_ERASURE_SECRET: secret,
}: ErasureSettings): ProviderAccounts | undefined {
  return url !== undefined && secret !== undefined ? accountsByWebhook({ url, secret }) : undefined
}

/** What erasures themselves keep. */
export const erasurePart: PersonalPart = {
  personal: {
    erasures: {
      holds: 'erasures, as proof that they were carried out',
      kept: 'always',
      columns: {
        user_id: { person: { stays: 'the id of an anonymous member' } },
        administrator_id: { person: { stays: 'of the administrator who asked for it' } },
        reason: { erase: 'removed with the completion', canary: 'text' },
        sole_owner_of: { harmless: 'ids of organizations' },
        lease_holder: { harmless: 'random' },
      },
    },
    erasure_steps: {
      holds: 'what each step of an erasure has erased',
      kept: 'as long as the erasure',
      columns: {
        step: { harmless: 'a closed list' },
        last_error: { harmless: 'what failed, without values' },
        counts: { harmless: 'numbers' },
      },
    },
    erasure_resources: {
      holds: 'ids of what is being erased',
      kept: 'until the erasure is completed',
      columns: { resource_id: { harmless: 'the id of a resource' } },
    },
    erasure_ledger: {
      holds: 'keyed hashes of the ids of erased users',
      kept: 'always, so that no token and no backup brings them back',
      columns: { name: { harmless: 'an HMAC, whose key is not in the database' } },
    },
  },
  erase: steps,
}
