import { readFile } from 'node:fs/promises'
import { parse } from 'yaml'
import * as z from 'zod'
import { API_VERSION } from '../crds/kind.ts'
import { CONFIRM_RUN, RETENTION_POLICIES, type RetentionPolicy } from '../crds/retention-policy.ts'
import { RetentionRule, RetentionTarget } from '../crds/retention-rules.ts'
import type { Cluster, KubeObject, Reflection } from '../lib/runtime/kube/cluster.ts'
import type { Log } from '../lib/runtime/log.ts'
import type { PodTemplate } from '../operator/retention-policy/template.ts'
import { NAMESPACE, RETENTION_SECRET } from './environment.ts'

/** The pods of the runs of RetentionPolicies, which the chart describes for a cluster. */
export const retentionTemplate: PodTemplate = {
  spec: {
    restartPolicy: 'Never',
    // Long enough to finish or give back what a pod has taken up.
    terminationGracePeriodSeconds: 30,
    containers: [
      {
        name: 'retention',
        image: 'keepsake',
        command: ['node', '--max-semi-space-size=2', '--max-old-space-size=64', 'api/features/retention/main.js'],
        envFrom: [{ secretRef: { name: RETENTION_SECRET } }],
        resources: { limits: { memory: '512Mi' } },
        terminationMessagePolicy: 'FallbackToLogsOnError',
      },
    ],
  },
}

const VALUES = new URL('../charts/keepsake/values.yaml', import.meta.url)
const Values = z.object({
  retention: z.object({
    targets: z.array(RetentionTarget),
    policies: z.partialRecord(RetentionTarget, z.object({ schedule: z.string(), rules: z.array(RetentionRule) })),
  }),
})

/**
 * The policies that the chart brings, with its periods. They run each hour, at the minute that the chart names: a machine
 * that is off at night has no slot then.
 */
export async function defaultPolicies(): Promise<KubeObject[]> {
  const { retention } = Values.parse(parse(await readFile(VALUES, 'utf8')))
  return retention.targets.map((target) => {
    const { schedule, rules } = retention.policies[target] ?? {}
    const [minute] = schedule?.split(' ') ?? []
    const name = target.replace(/(?!^)[A-Z]/g, (letter) => `-${letter}`).toLowerCase()
    return {
      apiVersion: API_VERSION,
      kind: RETENTION_POLICIES.kind,
      metadata: { name, namespace: NAMESPACE },
      spec: { target, schedule: `${minute} * * * *`, rules },
    }
  })
}

interface ConfirmationOptions {
  /** The person has confirmed all of them. */
  isConfirmed: boolean
  tell(text: string): void
  log: Log
}

/** Tells about runs that ask for a confirmation, since a person at this machine sees no status of a policy; or confirms them. */
export function answerRuns(
  cluster: Pick<Cluster, 'reflect' | 'patch'>,
  { isConfirmed, tell, log }: ConfirmationOptions,
): Reflection<KubeObject> {
  type Policy = KubeObject & Pick<RetentionPolicy, 'status'>
  return cluster.reflect<Policy>(RETENTION_POLICIES, {
    onSet({ metadata, status }, old) {
      const { lastRun } = status ?? {}
      if (lastRun?.ended !== 'ConfirmationRequired' || lastRun.name === old?.status?.lastRun?.name) return
      if (!isConfirmed) return tell(`Retention of ${metadata.name} waits (--confirm-retention): ${lastRun.reason}`)
      const annotations = { [CONFIRM_RUN]: lastRun.name }
      cluster
        .patch(RETENTION_POLICIES, { namespace: NAMESPACE, name: metadata.name }, { metadata: { annotations } })
        .catch((error: unknown) => log.warn({ err: error, policy: metadata.name }, 'could not confirm a run'))
    },
    onDelete() {},
  })
}
