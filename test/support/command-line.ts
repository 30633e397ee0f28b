import type { Readable } from 'node:stream'
import { runCommandLine } from '../../api/command-line.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers and lines differ by command; a test reads a field and fails if it is missing
type Parsed = any

export interface Outcome {
  code: number
  out: Parsed
  err: string
}

export interface Printed extends Outcome {
  /** What was printed before the result, a line each. */
  lines: Parsed[]
}

/** A command of an administrator, run in this process. Its output is parsed unless it is no JSON. */
export async function commandLine(
  args: string[],
  env: Record<string, string | undefined>,
  input?: Readable,
): Promise<Printed> {
  let [out, err] = ['', '']
  const terminal = {
    out: (text: string) => {
      out += text
    },
    err: (text: string) => {
      err += text
    },
    ...(input && { input }),
  }
  const code = await runCommandLine(args, terminal, env)
  if (!out.startsWith('{')) return { code, out, lines: [], err }
  const lines = out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  return { code, out: lines.pop(), lines, err }
}
