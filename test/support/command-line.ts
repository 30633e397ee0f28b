import { runCommandLine } from '../../api/command-line.ts'

export interface Outcome {
  code: number
  // biome-ignore lint/suspicious/noExplicitAny: answers differ by operation; a test reads a field and fails if it is missing
  out: any
  err: string
}

export interface Printed extends Outcome {
  /** What was printed before the result, a line each. */
  // biome-ignore lint/suspicious/noExplicitAny: each command prints lines of its own; a test reads a field and fails if it is missing
  lines: any[]
}

/** A command of an administrator, run in this process. Its output is parsed unless it is no JSON. */
export async function commandLine(args: string[], env: Record<string, string | undefined>): Promise<Printed> {
  let [out, err] = ['', '']
  const terminal = {
    out: (text: string) => {
      out += text
    },
    err: (text: string) => {
      err += text
    },
  }
  const code = await runCommandLine(args, terminal, env)
  if (!out.startsWith('{')) return { code, out, lines: [], err }
  const lines = out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  return { code, out: lines.pop(), lines, err }
}
