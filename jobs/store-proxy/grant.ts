import { hotKeyOf, isColdKey } from '../../lib/contract/cold-key.ts'
import { mayUse } from '../../lib/contract/piece-scope.ts'
import type { StoreGrant } from '../../lib/contract/store-proxy.ts'
import { isObjectKey } from '../../lib/runtime/object-store/key.ts'

/** What a request touches: one object, or all below a prefix. */
export type Target = { key: string } | { prefix: string } | 'nothing'

/** `list` tells names, sizes, entity tags and times: enough to recognize contents, not to read them. */
export type Action = 'read' | 'list' | 'write' | 'remove'

/** Whether the grant permits to do this with the target. Pure. */
export function permits(grant: StoreGrant, target: Target, action: Action): boolean {
  if (target === 'nothing') return true
  const prefixes = action === 'list' || action === 'remove' ? [...grant.write, ...grant.remove] : grant.write
  const isBelow = (name: string) => prefixes.some((prefix) => name.startsWith(prefix))
  if ('prefix' in target) return isObjectKey(`${target.prefix}x`) && isBelow(target.prefix)
  // Before anything is compared: `a/../b` starts with `a/`. An object named as a prefix without its slash is not below it.
  if (!isObjectKey(target.key)) return false
  return isBelow(target.key) || (action === 'read' && (isSource(grant, target.key) || isUsable(grant, target.key)))
}

/** Also where a source is once it has moved to the cold tier: that may happen while a Job waits for its node. */
const isSource = ({ read }: StoreGrant, key: string) =>
  read.includes(key) || (isColdKey(key) && read.includes(hotKeyOf(key)))

/** Whether the key is in a folder of pieces whose sources this Job may read. */
function isUsable({ read, remove }: StoreGrant, key: string): boolean {
  return remove.some((prefix) => {
    if (!key.startsWith(prefix)) return false
    const [folder, ...rest] = key.slice(prefix.length).split('/')
    return rest.length > 0 && mayUse(read, `${folder}/`)
  })
}
