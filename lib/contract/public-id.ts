import * as z from 'zod'
import { formatId, type Id, type IdKind, idPattern, type PublicId } from './ids.ts'

/**
 * An id in what leaves the program, in answers and events: given as a UUID, it leaves as `med_…`. What has been parsed
 * stays as it is when it is parsed again: payloads of events wait in Postgres with the ids of consumers.
 */
export function publicId<K extends IdKind>(kind: K): z.ZodType<PublicId<K>, Id<K>> {
  const pattern = idPattern(kind)
  const text = z.string().check((given) => {
    if (looksLikeUuid(given.value)) given.value = formatId(kind, given.value)
    else if (!pattern.test(given.value)) {
      given.issues.push({ code: 'custom', message: `is not the id of a ${kind}`, input: given.value })
    }
  })
  return text as unknown as z.ZodType<PublicId<K>, Id<K>>
}

/** Not a regular expression: a page of an album has two thousand ids, and they come from columns of type uuid. */
const looksLikeUuid = (text: string) => text.length === 36 && HYPHENS.every((at) => text.charCodeAt(at) === HYPHEN)
const HYPHENS = [8, 13, 18, 23]
const HYPHEN = 45
