import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { operatorEnv } from './operator-world.ts'
import { quickStart } from './quick-start.ts'

const MAIN = fileURLToPath(new URL('../../operator/main.ts', import.meta.url))

export interface OperatorProcess {
  child: ChildProcess
  output(): string
  /** Resolves with the exit status, or the signal that ended it. */
  ended: Promise<number | string>
  /** What it has logged about this, as soon as it has. */
  logged(message: string): Promise<void>
}

/** The real program as it runs in a pod, killed at the end of the test, or with it. */
export function startOperatorProcess(
  t: { teardown(done: () => void): unknown },
  kubeconfig: string,
  env: Record<string, string> = {},
): OperatorProcess {
  const mortal = process.platform === 'linux' ? ['setpriv', '--pdeathsig', 'KILL'] : []
  const [command = '', ...args] = [...mortal, process.execPath, MAIN]
  const child = spawn(command, args, {
    env: {
      PATH: process.env['PATH'],
      ...quickStart(),
      KUBECONFIG: kubeconfig,
      ...operatorEnv({ LOG_LEVEL: 'info', ...env }),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => void child.kill('SIGKILL'))
  let text = ''
  const waiting = new Set<() => void>()
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
      for (const look of waiting) look()
    })
  }
  const ended = once(child, 'close').then(([code, signal]) => (code as number | null) ?? String(signal))
  return {
    child,
    ended,
    output: () => text,
    logged: (message) =>
      new Promise((resolve, reject) => {
        const look = () => {
          if (!text.includes(message)) return
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
        look()
        void ended.then((how) =>
          reject(new Error(`The operator ended with ${how} before "${message}":\n${text.slice(-4000)}`)),
        )
      }),
  }
}
