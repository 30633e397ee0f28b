import { eventually } from '../../support/eventually.ts'
import type { Namespace } from './namespace.ts'
import type { Owner } from './services.ts'

/** A module that Node loads before the program. */
const loading = (script: string) => `--import=data:text/javascript;base64,${Buffer.from(script).toString('base64')}`

/**
 * Environment that makes the store of chosen TranscodeJobs fail, by name: the store proxy gets other settings. It comes
 * to the pods through the store's Secret, so image and Job are those of production.
 */
export function storeFaults(address: string): Record<string, string> {
  const told = { 'no-bucket': { S3_BUCKET: 'no-such-bucket' }, 'no-store': { S3_ENDPOINT: `http://${address}:9` } }
  return {
    NODE_OPTIONS: loading(`
      const id = JSON.parse(process.env.STORE_GRANT).write[0].split('/').at(-2)
      Object.assign(process.env, ${JSON.stringify(told)}[id])`),
  }
}

/**
 * Makes the program of chosen TranscodeJobs fail, by the id of the input: `exit-N` ends with that code before it begins,
 * the others change its environment. The API server adds this to the pods, as an administrator's policy would, so image
 * and Job are those of production.
 */
export async function failPrograms(owner: Owner, { name, kubectl, apply }: Namespace): Promise<void> {
  const told = { 'bad-spec': { JOB_SPEC: '{}' }, 'bad-config': { CORES: 'none' } }
  const value = loading(`
    const id = JSON.parse(process.env.JOB_SPEC).inputs[0].id
    Object.assign(process.env, ${JSON.stringify(told)}[id])
    const code = /^exit-(\\d+)$/.exec(id)?.[1]
    if (code !== undefined) process.exit(Number(code))`)
  const expression = `[JSONPatch{op: "add", path: "/spec/containers/0/env/-",
    value: Object.spec.containers.env{name: "NODE_OPTIONS", value: ${JSON.stringify(value)}}}]`
  const metadata = { name: `faults-${name}` }
  const apiVersion = 'admissionregistration.k8s.io/v1'
  await apply(
    {
      apiVersion,
      kind: 'MutatingAdmissionPolicy',
      metadata,
      spec: {
        failurePolicy: 'Fail',
        reinvocationPolicy: 'Never',
        matchConstraints: {
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': name } },
          resourceRules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
        },
        mutations: [{ patchType: 'JSONPatch', jsonPatch: { expression } }],
      },
    },
    { apiVersion, kind: 'MutatingAdmissionPolicyBinding', metadata, spec: { policyName: metadata.name } },
  )
  owner.teardown(async () => {
    for (const kind of ['mutatingadmissionpolicybinding', 'mutatingadmissionpolicy'])
      await kubectl('delete', kind, metadata.name)
  })
  // The API server reads policies from a cache.
  const dryRun = ['run', 'probe', '--image=none', '--env=A=b', '--dry-run=server', '-o', 'json']
  await eventually('the policy in force', async () => (await kubectl(...dryRun)).includes('NODE_OPTIONS'), 240_000, 250)
}
