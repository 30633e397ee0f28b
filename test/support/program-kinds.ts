import type { Run, RunSpec, RunStatus } from '../../crds/run.ts'
import type { ProgressSubject } from '../../lib/contract/progress.ts'
import type { Job } from '../../operator/jobs/batch.ts'
import { PROGRAM_KINDS } from '../../operator/kinds.ts'
import { childJob, childName, type ProgramConfig } from '../../operator/program/child.ts'
import type { ProgramKind } from '../../operator/program/kind.ts'
import type { Observed } from '../../operator/program/observed.ts'
import { type Plan, plan } from '../../operator/program/plan.ts'
import { transcodeJob } from '../../operator/transcode-job/kind.ts'
import { newHighlightRender } from './highlight-render.ts'
import { newTranscodeJob } from './transcode-job.ts'

export const programConfig: ProgramConfig = {
  image: 'keepsake:1',
  storeSecret: 'object-store',
  progressUrl: 'http://operator:8090/progress',
  progressKey: 'k'.repeat(32),
  gpuAvailable: false,
  cpu: '2',
  cpuBackfill: '500m',
  memory: '2Gi',
  memoryMax: '8Gi',
  gpuWaitSeconds: 300,
  scratch: '20Gi',
  logLevel: 'info',
  priorityClasses: {},
  nodeSelector: {},
  tolerations: [],
  podLabels: {},
  podAnnotations: {},
}

/** When the decisions of `planFor` are taken. */
export const planTime = new Date('2026-01-01T00:10:00Z')

interface NewResource {
  metadata?: object
  spec?: object
}
interface Change {
  metadata?: object
  spec?: Partial<RunSpec> & object
  status?: RunStatus | undefined
}

/** A resource of each kind as a client sends it. */
const NEW: Record<string, (change: NewResource) => object> = {
  TranscodeJob: newTranscodeJob,
  HighlightRender: newHighlightRender,
}

/** What the tests of all kinds need to make resources and Jobs of one of them. */
export function kitOf(kind: ProgramKind) {
  const { kind: name } = kind.resource

  const newResource = ({ metadata, spec }: NewResource = {}): object => {
    const make = NEW[name]
    if (!make) throw new Error(`test/support/program-kinds.ts has no ${name}`)
    return make({ metadata: { name: 'med-1', namespace: 'media', ...metadata }, ...(spec && { spec }) })
  }

  /** A valid resource; a test says only what it is about. */
  function aResource(change: Change = {}): Run {
    const fresh = newResource(change) as { metadata: object }
    const server = { uid: 'uid-1', generation: 1, resourceVersion: '1', creationTimestamp: '2026-01-01T00:00:00Z' }
    const parsed = kind.parse({
      ...fresh,
      metadata: { ...server, ...fresh.metadata },
      ...(change.status && { status: change.status }),
    })
    if ('problem' in parsed) throw new Error(parsed.problem)
    return parsed.resource
  }

  /** The Job of a resource, as the API server would hand it out. */
  const aJob = (resource: Run, status: Job['status'] = {}, spec: object = {}): Job => {
    const job = childJob(kind, resource, (resource.status?.restarts ?? 0) + 1, programConfig)
    return { ...job, metadata: { ...job.metadata, uid: 'job-uid' }, spec: { ...job.spec, ...spec }, status }
  }

  /** The plan for a new resource of which nothing is there but what is given. */
  const planFor = (seen: Partial<Observed>): Plan =>
    plan({
      kind,
      resource: aResource(),
      job: undefined,
      pods: [],
      leftovers: [],
      helpers: [],
      config: programConfig,
      now: planTime,
      ...seen,
    })

  const [output] = kind.outputs(aResource().spec)
  if (!output) throw new Error(`a ${name} makes nothing`)
  return {
    kind,
    name: name as ProgressSubject['kind'],
    /** As a client sends it. */
    newResource,
    aResource,
    aJob,
    planFor,
    jobName: (resource: Run, number: number) => childName(kind, resource, number),
    /** The first output of `aResource()`. */
    output: { id: output.id, manifestKey: `${output.outputPrefix}manifest.json` },
  }
}
export type Kit = ReturnType<typeof kitOf>

export const KITS: readonly Kit[] = PROGRAM_KINDS.map(kitOf)
/** For tests of what does not depend on the kind. */
export const TRANSCODE = kitOf(transcodeJob)
