import * as z from 'zod'

/**
 * Reads the environment once, at start. Reports all mistakes together and never prints a value, because many values
 * are secrets. The rest of the program gets a frozen object; no other code reads `process.env`.
 */
export function loadConfig<S extends z.ZodObject>(
  schema: S,
  env: Record<string, string | undefined> = process.env,
): Readonly<z.output<S>> {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined && value !== ''))
  const result = schema.safeParse(given)
  if (result.success) return Object.freeze(result.data)
  throw new ConfigError(result.error.issues)
}

/** All mistakes in the environment, by variable name. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly variables: readonly string[]
  constructor(issues: readonly z.core.$ZodIssue[]) {
    const mistakes = issues.map((i) => `  ${i.path.join('.') || '(all)'}: ${i.message}`)
    super(`Bad configuration:\n${mistakes.join('\n')}`)
    this.variables = issues.map((i) => String(i.path[0] ?? ''))
  }
}

/** A JSON document inside one environment variable. */
export const json = <S extends z.ZodType>(schema: S) =>
  z
    .string()
    .transform((text, ctx): unknown => {
      try {
        return JSON.parse(text)
      } catch {
        ctx.addIssue({ code: 'custom', message: 'is not JSON' })
        return z.NEVER
      }
    })
    .pipe(schema)

/** `true`/`false`/`1`/`0`; any other value is a mistake. */
export const flag = z.stringbool()

/** A decimal integer. */
export const int = (min: number, max: number) => z.coerce.number().int().min(min).max(max)

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

/** The level of a job's log. A mistake in it must not fail an upload. */
export const JobLogConfig = z.object({ LOG_LEVEL: z.enum(LOG_LEVELS).catch('info') })

/** The variables by which Kubernetes clients and pods find the API server. */
export const kubernetesEnvironment = (env: Record<string, string | undefined> = process.env) => {
  const { KUBECONFIG, KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT } = env
  return { KUBECONFIG, KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT }
}
