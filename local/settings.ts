import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import * as z from 'zod'
import { newUuid } from '../lib/contract/ids.ts'
import { readIfThere, writePrivateFile } from './private-file.ts'

const ACCOUNT_NAMES = ['owner', 'member', 'admin', 'outsider', 'platform_admin'] as const
export type AccountName = (typeof ACCOUNT_NAMES)[number]

const Settings = z.object({
  version: z.literal(1),
  linkKeys: z.object({ current: z.string(), keys: z.record(z.string(), z.string()) }),
  cursorKey: z.string(),
  auditKeys: z.object({ current: z.string(), keys: z.record(z.string(), z.string()) }),
  progressKey: z.string(),
  clientSecret: z.string(),
  /** The `iss` of tokens. It identifies users together with `sub`, so it is kept when the provider's port changes. */
  issuer: z.string(),
  accounts: z.record(z.enum(ACCOUNT_NAMES), z.object({ id: z.uuid(), password: z.string() })),
})
export type Settings = z.output<typeof Settings>

const secret = () => randomBytes(32).toString('base64url')
const ring = () => ({ current: 'k1', keys: { k1: secret() } })
/** Easy to read and to type: no two characters look alike. */
const password = () => Array.from(randomBytes(16), (byte) => 'abcdefghjkmnpqrstuvwxyz23456789'[byte % 31]).join('')

/** The secrets and accounts of a folder: created at the first start, never changed. A later version adds its own. */
export async function openSettings(folder: string, identityPort: number): Promise<Settings> {
  const path = join(folder, 'settings.json')
  const kept = await readIfThere(path)
  if (kept !== undefined) {
    const known = JSON.parse(kept)
    const settings = Settings.parse({ auditKeys: ring(), ...known })
    if (known.auditKeys === undefined) await writePrivateFile(path, JSON.stringify(settings, undefined, 2))
    return settings
  }
  const account = () => ({ id: newUuid(), password: password() })
  const made: Settings = {
    version: 1,
    linkKeys: ring(),
    cursorKey: secret(),
    auditKeys: ring(),
    progressKey: secret(),
    clientSecret: secret(),
    issuer: `http://127.0.0.1:${identityPort}`,
    accounts: {
      owner: account(),
      member: account(),
      admin: account(),
      outsider: account(),
      platform_admin: account(),
    },
  }
  await writePrivateFile(path, JSON.stringify(made, undefined, 2))
  return made
}
