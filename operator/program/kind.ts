import type { ParsedRun, Run, RunSpec, RunStatus } from '../../crds/run.ts'
import type { ProgressSubject } from '../../lib/contract/progress.ts'
import type { StoreGrantInput } from '../../lib/contract/store-proxy.ts'
import type { KubeObject } from '../../lib/runtime/kube/cluster.ts'
import type { OperatorConfig } from '../config.ts'

/** A resource as the API server returns it, not yet validated. */
export interface RawResource extends KubeObject {
  spec?: Partial<RunSpec>
  status?: RunStatus
}

/** Requests of a pod, and its limits of memory and scratch space, as Kubernetes quantities. */
export interface ProgramSize {
  cpu: string
  /** Of a backfill: cgroups weigh processes by their request, so it gives way where a node is busy. */
  cpuBackfill: string
  /** Memory of the first attempt. */
  memory: string
  /** The maximum for an attempt after others ran out of memory. */
  memoryMax: string
  /** Space for the sources and all files that are made. */
  scratch: string
}

/** A kind of custom resource that runs one program to its end. All functions are pure. */
export interface ProgramKind<Spec extends RunSpec = RunSpec> {
  /** The API resource. Its kind in lower case is the name of its controller in logs and metrics. */
  resource: { group: string; version: string; plural: string; kind: ProgressSubject['kind'] }
  /** Prefix of the names of Jobs. */
  shortName: string
  /** Earlier operators gave Jobs of this kind the prefix even where the resource has it already: `tj-tj-…`. */
  hadPrefixTwice?: true
  /** Annotation of Jobs and pods: name of their resource. It tells the operator which kind they belong to. */
  ownerAnnotation: string
  /** Label app.kubernetes.io/component of Jobs and pods. */
  component: string
  /** Name of the metric that counts the resources by phase. */
  gauge: string
  /** Its resource has a place for why its program works as it does. */
  hasPlanReason?: true
  /** The program: a file in the image, relative to its folder. */
  entry: string
  size(config: OperatorConfig): ProgramSize
  /** Validates the spec and fills in the defaults. Throws for a value that is not a Kubernetes object. */
  parse(object: unknown): ParsedRun<Run<string, Spec>>
  /** JOB_SPEC of the program: all that it needs of the spec, and nothing else. */
  jobSpec(spec: Spec): object
  /** Pods that do a part of the work beside the one that makes the attempts, with the same JOB_SPEC, grant and resources. */
  helpers?: {
    /** Their program, as `entry`. */
    entry: string
    /** How many of them, at most 63; 0: none. */
    count(spec: Spec): number
  }
  /** Whether it makes all renditions of a whole upload, for which it gets all of the scratch space. */
  makesLadders?(spec: Spec): boolean
  /** Whether two of its sources, of the size of the largest upload, may have to be on disk at once. */
  holdsTwoUploads?(spec: Spec): boolean
  /** What the pod may read and write in the object store. */
  grant(spec: Spec): StoreGrantInput
  /** What the program makes: status.outputs and progress reports name it by its id. */
  outputs(spec: Spec): readonly { id: string; outputPrefix: string }[]
  /** The condition's message after a success. */
  successMessage(spec: Spec): string
}
