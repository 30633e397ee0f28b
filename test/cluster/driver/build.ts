import { homedir } from 'node:os'
import { join } from 'node:path'

/** The folder with kube-apiserver, etcd, kubectl and their like. */
export async function ensureBinaries(): Promise<string> {
  const cache =
    process.env['KEEPSAKE_CACHE'] ?? join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'keepsake')
  return join(cache, 'kubernetes', 'bin')
}
