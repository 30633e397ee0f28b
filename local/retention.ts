import type { PodTemplate } from '../operator/retention-policy/template.ts'
import { RETENTION_SECRET } from './environment.ts'

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
