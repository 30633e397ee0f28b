import { loadConfig } from '../../../lib/runtime/config.ts'
import type { S3Options } from '../../../lib/runtime/object-store/s3-client.ts'
import { OperatorConfig } from '../../../operator/config.ts'
import { type Operator, startOperator } from '../../../operator/operator.ts'
import { quietLog } from '../../support/quiet-log.ts'
import type { Namespace } from './namespace.ts'
import type { Owner } from './services.ts'

export const IMAGE = 'localhost/keepsake:dev'
export const STORE_SECRET = 'store'

/** The environment of programs that keep their objects in this bucket. */
export const storeEnvironment = (s3: S3Options): Record<string, string> => ({
  STORE_KIND: 's3',
  S3_ENDPOINT: s3.endpoint,
  S3_REGION: s3.region,
  S3_BUCKET: s3.bucket,
  S3_ACCESS_KEY: s3.accessKey,
  S3_SECRET_KEY: s3.secretKey,
  ...(s3.publicEndpoint && { S3_PUBLIC_ENDPOINT: s3.publicEndpoint }),
  ...(s3.ca && { S3_CA: s3.ca }),
  ...(s3.coldClass && { S3_COLD_CLASS: s3.coldClass }),
})

/** Small requests: several of these pods fit on the test's node. */
const SMALL = { JOB_CPU: '100m', JOB_MEMORY: '768Mi', JOB_SCRATCH: '1Gi' }

/** An operator for one namespace, in this process, with pods that really run. `change` is what the case is about. */
export async function runOperator(
  owner: Owner,
  namespace: Namespace,
  options: { address: string; change?: Record<string, string> },
): Promise<Operator> {
  const config = loadConfig(OperatorConfig, {
    HOST: options.address,
    PROGRESS_PORT: '0',
    HEALTH_PORT: '0',
    METRICS_PORT: '0',
    PROGRESS_KEY: 'a key for tests that is long enough',
    WATCH_NAMESPACE: namespace.name,
    // Alone: a machine that stands still for as long as a lease would end it.
    LEADER_ELECTION: 'false',
    JOB_IMAGE: IMAGE,
    STORE_SECRET,
    ...SMALL,
    ...options.change,
  })
  const operator = await startOperator({ config, cluster: namespace.kube, log: quietLog() })
  owner.teardown(() => operator.close())
  return operator
}
