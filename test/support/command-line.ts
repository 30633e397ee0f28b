import { runCommandLine } from '../../api/command-line.ts'

export interface Outcome {
  code: number
  // biome-ignore lint/suspicious/noExplicitAny: answers differ by operation; a test reads a field and fails if it is missing
  out: any
  err: string
}

/** A command of an administrator, run in this process. Its output is parsed unless it is no JSON. */
export async function commandLine(args: string[], env: Record<string, string | undefined>): Promise<Outcome> {
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
  return { code, out: out.startsWith('{') ? JSON.parse(out) : out, err }
}
