/**
 * Named lines at which a test kills the process, to show that the next process recovers. `KEEPSAKE_FAILPOINT=name` (or
 * `name:2` for the second time that the line is reached) sends SIGKILL to this process there. Unset, a failpoint costs
 * one comparison. Never set it in production.
 */
let armed: { name: string; left: number } | undefined

export function armFailpoint(text: string | undefined): void {
  const [name, nth] = (text ?? '').split(':')
  armed = name ? { name, left: Number(nth ?? 1) } : undefined
}

export function failpoint(name: string): void {
  if (armed?.name !== name) return
  armed.left -= 1
  if (armed.left <= 0) process.kill(process.pid, 'SIGKILL')
}
