import { startControlPlane } from './control-plane.ts'

/** Starts a control plane, says where, and lives until it is killed. */
console.log((await startControlPlane()).kubeconfig)
setInterval(() => {}, 60_000)
