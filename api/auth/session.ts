import * as z from 'zod'
import { optional, outputArray, outputId, outputTime, text, verbatim } from '../requests/schemas.ts'

const seconds = () =>
  z
    .int()
    .min(0)
    .max(2 ** 31 - 1)
    .meta({ description: 'Seconds' })

const device = {
  device_id: optional(text(1, 200)).meta({ description: 'A name that the device gave itself' }),
  device_name: optional(text(1, 200)).meta({
    description: 'What the user calls the device: shown in the list of sessions',
  }),
}

export const LoginBody = z.object({
  email: text(3, 320),
  // Neither trimmed nor normalized: the identity provider decides what a valid password is.
  password: verbatim(1024).meta({ format: 'password' }),
  ...device,
})
export type LoginBody = z.output<typeof LoginBody>

export const CompleteLoginBody = z.object({
  challenge_id: verbatim(4096).meta({ description: '`details[].challenge_id` of `MFA_REQUIRED`' }),
  code: text(1, 64).meta({ description: 'Of the second factor, as the user enters it' }),
  ...device,
})
export type CompleteLoginBody = z.output<typeof CompleteLoginBody>
export const RefreshBody = z.object({ refresh_token: verbatim(8192) })
export const LogoutBody = z.object({
  refresh_token: optional(verbatim(8192)).meta({ description: 'Is also revoked at the identity provider' }),
})

export const Tokens = z
  .object({
    access_token: z.string().meta({ description: 'RS256 JWT, valid for 15 minutes' }),
    token_type: z.literal('Bearer'),
    expires_in: seconds(),
    refresh_token: z.string().nullable().meta({
      description:
        'To be kept in place of the one before. Using one that was replaced gets the same answer for 90 seconds, and then ends the session. Null if the identity provider issues none',
    }),
    refresh_expires_in: seconds(),
    id_token: z.string().nullable(),
    session_id: outputId('session'),
  })
  .meta({ id: 'Tokens' })
export type Tokens = Omit<z.output<typeof Tokens>, 'session_id'> & { session_id: string }

/** Those used last. */
export const MAX_SESSIONS = 100

export const Session = z
  .object({
    session_id: outputId('session'),
    device_name: z.string().nullable().meta({ description: 'As the device called itself when the user signed in' }),
    ip_address: z.string().nullable().meta({ description: 'From which it was last used' }),
    created_at: outputTime().meta({ description: 'When the user signed in' }),
    last_used_at: outputTime().meta({ description: 'To the minute' }),
    current: z.boolean().meta({ description: 'Whether the request belongs to it' }),
  })
  .meta({ id: 'Session' })
export type Session = z.input<typeof Session>

export const Sessions = z.object({ sessions: outputArray(Session, MAX_SESSIONS) }).meta({ id: 'SessionList' })

const Key = z
  .looseObject({ kty: z.string(), kid: z.string().optional() })
  .meta({ id: 'JsonWebKey', description: 'RFC 7517; further members depend on `kty`' })
export const Keys = z.object({ keys: z.array(Key) }).meta({ id: 'JsonWebKeySet', description: 'RFC 7517' })
