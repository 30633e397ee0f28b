import { type Adapter, type AdapterPayload, errors } from 'oidc-provider'
import * as z from 'zod'
import { readIfThere, writePrivateFile } from '../private-file.ts'

const Entry = z.object({ payload: z.record(z.string(), z.unknown()), expiresAt: z.number().nullable() })
const File = z.record(z.string(), Entry)
type Entry = { payload: AdapterPayload; expiresAt: number | null }

/** Grants and refresh tokens in one file. A change is on disk before the client is answered. */
export interface GrantStore {
  /** The adapter factory of oidc-provider: called with the name of each model. */
  adapter(model: string): Adapter
  /** Revokes every refresh token of an account. */
  revokeAll(accountId: string): Promise<void>
  /** Resolves when the running write has ended. */
  close(): Promise<void>
}

export async function openGrantStore(path: string, now: () => number = Date.now): Promise<GrantStore> {
  const text = await readIfThere(path)
  const entries = new Map<string, Entry>(Object.entries(File.parse(JSON.parse(text ?? '{}')) as Record<string, Entry>))
  let running: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined

  /** Resolves when the current state is on disk. Calls during a write share the next one. */
  function save(): Promise<void> {
    next ??= running
      .catch(() => undefined)
      .then(async () => {
        next = undefined
        for (const [key, e] of entries) if (e.expiresAt !== null && e.expiresAt <= now()) entries.delete(key)
        await writePrivateFile(path, JSON.stringify(Object.fromEntries(entries)))
      })
    running = next
    return next
  }

  async function drop(match: (payload: AdapterPayload, key: string) => boolean): Promise<void> {
    for (const [key, { payload }] of entries) if (match(payload, key)) entries.delete(key)
    await save()
  }

  const live = (key: string) => {
    const entry = entries.get(key)
    return entry && (entry.expiresAt === null || entry.expiresAt > now()) ? entry : undefined
  }

  function adapter(model: string): Adapter {
    const keyOf = (id: string) => `${model}:${id}`
    return {
      async upsert(id, payload, expiresIn) {
        entries.set(keyOf(id), { payload, expiresAt: expiresIn ? now() + expiresIn * 1000 : null })
        await save()
      },
      // A copy, so that another request does not change the state that the caller decides by.
      find: async (id) => structuredClone(live(keyOf(id))?.payload),
      findByUid: async () => undefined,
      findByUserCode: async () => undefined,
      async consume(id) {
        const entry = live(keyOf(id))
        if (!entry || entry.payload.consumed) {
          // Two requests found the same token unused. The second one is a reuse, so the family is revoked.
          const family = entry?.payload.grantId
          await drop((p, key) => family !== undefined && (p.grantId === family || key === `Grant:${family}`))
          throw new errors.InvalidGrant('refresh token already used')
        }
        entry.payload.consumed = Math.floor(now() / 1000)
        await save()
      },
      destroy: (id) => drop((_, key) => key === keyOf(id)),
      revokeByGrantId: (grantId) => drop((p, key) => key.startsWith(`${model}:`) && p.grantId === grantId),
    }
  }

  return {
    adapter,
    revokeAll: (accountId) => drop((p) => p.accountId === accountId),
    close: () => running,
  }
}
