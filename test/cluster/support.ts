import type { Test } from 'tap'
import type { TestCluster } from './driver/cluster.ts'
import { startControlPlane } from './driver/control-plane.ts'

/** A control plane of this test's own, stopped at its end. */
export async function controlPlane(t: Test): Promise<TestCluster> {
  const plane = await startControlPlane()
  t.teardown(() => plane.stop())
  return plane
}
