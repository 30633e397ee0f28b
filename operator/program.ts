import { readFileSync } from 'node:fs'
import { loadConfig } from '../lib/runtime/config.ts'
import { armFailpoint } from '../lib/runtime/failpoint.ts'
import { openKubeCluster } from '../lib/runtime/kube/kube-cluster.ts'
import { lifecycle } from '../lib/runtime/lifecycle.ts'
import { openLog } from '../lib/runtime/log.ts'
import { OperatorConfig } from './config.ts'
import { startOperator } from './operator.ts'
import { operatorMetrics } from './operator-metrics.ts'
import { PodTemplate } from './retention-policy/template.ts'

const config = loadConfig(OperatorConfig)
const log = openLog({ program: 'operator', level: config.LOG_LEVEL })
armFailpoint(config.KEEPSAKE_FAILPOINT)
const templateFile = config.RETENTION_TEMPLATE_FILE
const retentionTemplate =
  templateFile === undefined ? undefined : PodTemplate.parse(JSON.parse(readFileSync(templateFile, 'utf8')))
const life = lifecycle(log, { deadlineMs: 30_000, exit: true })

const metrics = operatorMetrics()
// The API server's priority and fairness is the effective limit; this one only stops a runaway loop.
const cluster = openKubeCluster({ log, onRequest: metrics.requested, perSecond: 1000, burst: 2000 })
life.onStop('cluster', () => cluster.close())
const operator = await startOperator({
  config,
  cluster,
  log,
  metrics,
  ...(retentionTemplate && { retentionTemplate }),
  onFatal(error) {
    // Exit without cleanup: another replica may already be leading.
    log.fatal({ err: error }, 'ending at once')
    process.exit(1)
  },
})
life.onStop('operator', () => operator.close())
const { progressUrl, healthUrl, metricsUrl } = operator
log.info({ progressUrl, healthUrl, metricsUrl }, 'operator started')
