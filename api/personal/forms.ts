import { formatId, PREFIXES, parseId, type Uuid } from '../../lib/contract/ids.ts'

/** How the id of a user is written, in JSON and elsewhere. */
export const formsOf = (userId: Uuid): string[] => [formatId('user', userId), userId]

const KINDS = Object.entries(PREFIXES).map(([kind, prefix]) => [prefix, kind] as const)
const KIND_OF: ReadonlyMap<string, string> = new Map(KINDS)
const ID = /\b([a-z]{3})_[0-7][0-9a-hjkmnp-tv-z]{25}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g

/** Whether a text names one of these ids, in either form. */
export function namesOneOf(ids: ReadonlySet<Uuid>): (text: string) => boolean {
  return (text) => {
    for (const [id, prefix] of text.matchAll(ID)) {
      const kind = KIND_OF.get(prefix ?? '')
      const uuid = kind === undefined ? id : parseId(kind as keyof typeof PREFIXES, id)
      if (uuid !== undefined && ids.has(uuid)) return true
    }
    return false
  }
}
