import type { PodFailureRule } from './batch-schemas.ts'
import { conditionIn, type Pod } from './types.ts'

/** The first rule that matches decides; a pod without container statuses matches no rule on exit codes. */
export function judgePod(
  rules: readonly PodFailureRule[],
  pod: Pod,
): { action: PodFailureRule['action']; message: string } {
  const name = `${pod.metadata.namespace}/${pod.metadata.name}`
  for (const [index, { action, onExitCodes, onPodConditions }] of rules.entries()) {
    const end = `matching ${action} rule at index ${index}`
    const condition = onPodConditions?.find((c) => conditionIn(pod.status?.conditions, c.type)?.status === c.status)
    if (condition) return { action, message: `Pod ${name} has condition ${condition.type} ${end}` }
    const hit = onExitCodes && pod.status?.containerStatuses?.find((status) => matchesCode(onExitCodes, status))
    if (hit) {
      const message = `Container ${hit.name} for pod ${name} failed with exit code ${hit.state.terminated?.exitCode} ${end}`
      return { action, message }
    }
  }
  return { action: 'Count', message: '' }
}

function matchesCode(
  rule: NonNullable<PodFailureRule['onExitCodes']>,
  status: { name: string; state: { terminated?: { exitCode: number } } },
): boolean {
  const code = status.state.terminated?.exitCode
  if (code === undefined || code === 0) return false
  if (rule.containerName !== undefined && rule.containerName !== status.name) return false
  return rule.values.includes(code) === (rule.operator === 'In')
}
