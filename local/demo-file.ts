import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import * as z from 'zod'
import { writePrivateFile } from './private-file.ts'

const Account = z.object({
  email: z.string(),
  password: z.string(),
  user_id: z.string(),
  name: z.string(),
  organizations: z.array(z.object({ org_id: z.string(), role: z.enum(['owner', 'admin', 'member']) })),
})

/** `demo.json`: everything an HTTP client or an administrator needs. The file exists while the platform is ready. */
export const Demo = z.object({
  version: z.literal(1),
  /** Of the process that runs the platform. */
  pid: z.int(),
  /** Public address and base path, e.g. `http://127.0.0.1:8080/v1`. */
  base_url: z.url(),
  public_url: z.url(),
  internal_url: z.url(),
  metrics_url: z.url(),
  /** Health of the other two programs (`/livez`, `/readyz`), and their `/metrics`. */
  worker_url: z.url(),
  worker_metrics_url: z.url(),
  operator_url: z.url(),
  operator_metrics_url: z.url(),
  /** The `DATABASE_URL` of the command line; it contains the password. */
  database_url: z.url(),
  /** The demo page; the link signs in, so it is a secret like the passwords. */
  page_url: z.url(),
  page_link: z.url(),
  identity_provider: z.object({
    issuer: z.string(),
    jwks_url: z.url(),
    token_url: z.url(),
    revocation_url: z.url(),
    client_id: z.string(),
    client_secret: z.string(),
    audience: z.string(),
  }),
  organizations: z.array(z.object({ org_id: z.string(), name: z.string() })),
  accounts: z.object({
    owner: Account,
    member: Account,
    admin: Account,
    outsider: Account,
    platform_admin: Account,
  }),
})
export type Demo = z.output<typeof Demo>

const pathOf = (folder: string) => join(folder, 'demo.json')
export const writeDemo = (folder: string, demo: Demo) =>
  writePrivateFile(pathOf(folder), `${JSON.stringify(Demo.parse(demo), undefined, 2)}\n`)
export const removeDemo = (folder: string) => rm(pathOf(folder), { force: true })
