import * as z from 'zod'
import { text, verbatim } from '../requests/schemas.ts'

const seconds = () =>
  z
    .int()
    .min(0)
    .max(2 ** 31 - 1)
    .meta({ description: 'Seconds' })

export const LoginBody = z.object({
  email: text(3, 320),
  // Neither trimmed nor normalized: the identity provider decides what a valid password is.
  password: verbatim(1024).meta({ format: 'password' }),
  device_id: text(1, 200).optional(),
  device_name: text(1, 200).optional(),
})
export const RefreshBody = z.object({ refresh_token: verbatim(8192) })
export const LogoutBody = z.object({
  refresh_token: verbatim(8192).optional().meta({ description: 'Is also revoked at the identity provider' }),
})

export const Session = z
  .object({
    access_token: z.string().meta({ description: 'RS256 JWT, valid for 15 minutes' }),
    token_type: z.literal('Bearer'),
    expires_in: seconds(),
    refresh_token: z.string().meta({ description: 'Usable once; using it again ends the session' }),
    refresh_expires_in: seconds(),
    id_token: z.string().nullable(),
    session_id: z.string().nullable(),
  })
  .meta({ id: 'Session' })
export type Session = z.infer<typeof Session>

const Key = z
  .looseObject({ kty: z.string(), kid: z.string().optional() })
  .meta({ id: 'JsonWebKey', description: 'RFC 7517; further members depend on `kty`' })
export const Keys = z.object({ keys: z.array(Key) }).meta({ id: 'JsonWebKeySet', description: 'RFC 7517' })
