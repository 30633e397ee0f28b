import { type Logger, pino } from 'pino'

export type Log = Logger

/** `/d/{token}/…` links are bearer credentials: a log that holds one can be replayed until it expires. */
export const redactUrl = (url: string) =>
  url.replace(/\/d\/[^/?#]+/g, '/d/[redacted]').replace(/([?&](?:X-Amz-[A-Za-z-]+|token|code)=)[^&#]*/g, '$1[redacted]')

const SECRET_FIELDS = [
  'authorization',
  'cookie',
  'password',
  'access_token',
  'refresh_token',
  'id_token',
  'client_secret',
  'token',
]
const paths = SECRET_FIELDS.flatMap((f) => [f, `*.${f}`, `*.*.${f}`, `*.*.*.${f}`])

/**
 * JSON lines on stdout (or a given file descriptor). Replaces fields named like a credential and the token of a signed
 * link under `url`. Errors keep their stack, because only operators read the log.
 */
export function openLog(options: { program: string; level?: string; fd?: number }): Log {
  return pino(
    {
      level: options.level ?? 'info',
      base: { program: options.program },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths, censor: '[redacted]' },
      serializers: { err: pino.stdSerializers.err, url: redactUrl },
    },
    pino.destination({ fd: options.fd ?? 1, sync: true }),
  )
}
