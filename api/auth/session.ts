import * as z from 'zod'
import { text, verbatim } from '../http/schemas.ts'

export const LoginBody = z.object({
  email: text(3, 320),
  // Not trimmed and not normalised: what is right here is the identity provider's business.
  password: verbatim(1024).meta({ format: 'password' }),
  device_id: text(1, 200).optional(),
  device_name: text(1, 200).optional(),
})
export const RefreshBody = z.object({ refresh_token: verbatim(8192) })
export const LogoutBody = z.object({
  refresh_token: verbatim(8192).optional().meta({ description: 'Also revoked at the identity provider' }),
})

export const Session = z
  .object({
    access_token: z.string().meta({ description: 'RS256 JWT, valid for 15 minutes' }),
    token_type: z.literal('Bearer'),
    expires_in: z.int().meta({ description: 'Seconds' }),
    refresh_token: z.string().meta({ description: 'Usable once; using it again ends the session' }),
    refresh_expires_in: z.int().meta({ description: 'Seconds' }),
    id_token: z.string().nullable(),
    session_id: z.string().nullable(),
  })
  .meta({ id: 'Session' })
export type Session = z.infer<typeof Session>

export const Keys = z
  .object({ keys: z.array(z.looseObject({ kty: z.string(), kid: z.string().optional() })) })
  .meta({ id: 'JsonWebKeySet', description: 'RFC 7517' })
