/**
 * Places where a test makes the process die without warning, to show that the next one repairs what was left.
 * `KEEPSAKE_FAILPOINT=name` (or `name:2` for the second time it is reached) kills this process with SIGKILL there.
 * Without it a failpoint is one comparison. Never set it in production: that is all it can do.
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
