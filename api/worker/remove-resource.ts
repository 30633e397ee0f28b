import { type Cluster, isClusterError, type KubeObject, type Resource } from '../../lib/runtime/kube/cluster.ts'

/** Deletes this very resource, and not one that was created under its name since. */
export async function removeResource(
  { cluster, namespace }: { cluster: Pick<Cluster, 'delete'>; namespace: string },
  resource: Resource,
  { metadata: { name, uid } }: Pick<KubeObject, 'metadata'>,
): Promise<void> {
  try {
    await cluster.delete(resource, { namespace, name }, uid ? { uid } : {})
  } catch (error) {
    // Another worker was faster: this resource is gone, and its name belongs to a new one.
    if (!isClusterError(error, 'Conflict')) throw error
  }
}
