import { ClusterError } from '../../lib/runtime/kube/cluster.ts'

/** What the API server says about a call: `accepted`, or the reason and the message of its refusal. */
export async function answer(call: () => Promise<unknown>): Promise<string> {
  try {
    await call()
    return 'accepted'
  } catch (error) {
    if (!(error instanceof ClusterError)) throw error
    return `${error.reason}: ${error.message}`
  }
}
