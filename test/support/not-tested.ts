/** A file, or a test in it, that did not run, and why. */
export interface Skip {
  file: string
  why: string
}

/** Installs what the tests of real services and browsers need. */
const COMMAND = 'local/setup.sh --tests'

/** The lines before the summary of a run: a skip between thousands of other lines goes unseen. */
export function notTested(skips: readonly Skip[]): string[] {
  if (skips.length === 0) return []
  const reasons = [...Map.groupBy(skips, ({ why }) => why)]
  const lines = reasons.map(([why, of]) => `- ${why}: ${[...new Set(of.map(({ file }) => file))].sort().join(', ')}`)
  const isInstallable = reasons.some(([why]) => / is not installed/.test(why))
  const how = `On Debian and Ubuntu \`${COMMAND}\` installs what is missing; then run the tests again.`
  return ['Not tested on this machine:', ...lines.sort(), ...(isInstallable ? [how] : []), '']
}
