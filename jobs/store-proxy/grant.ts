import type { StoreGrant } from '../../lib/contract/store-proxy.ts'
import { isObjectKey } from '../../lib/runtime/object-store/key.ts'

/** What a request touches: one object, or all below a prefix. */
export type Target = { key: string } | { prefix: string } | 'nothing'

/** Whether the grant permits to read, or to change, the target. Pure. */
export function permits(grant: StoreGrant, target: Target, action: 'read' | 'write'): boolean {
  if (target === 'nothing') return true
  if ('prefix' in target) return isWithin(grant, target.prefix)
  // Before anything is compared: `a/../b` starts with `a/`.
  if (!isObjectKey(target.key)) return false
  return isBelow(grant, target.key) || (action === 'read' && grant.read.includes(target.key))
}

/** An object named as the prefix without its slash is not below it. */
const isBelow = ({ write }: StoreGrant, key: string) => write.some((prefix) => key.startsWith(prefix))

const isWithin = ({ write }: StoreGrant, prefix: string) =>
  isObjectKey(`${prefix}x`) && write.some((granted) => prefix.startsWith(granted))
