/**
 * What was begun and not sent, by the path of the discussion and what it is (`new`, `reply cmt_1`, `edit cmt_1`):
 * `{text, chosen, media, before, about}`. `about` are the comments that it stands below, the nearest one first. It is
 * there again when the discussion is opened again.
 */
const unsent = new Map()

export const draftsIn = (base) => [...(unsent.get(base)?.values() ?? [])]
export const draftOf = (base, slot) => unsent.get(base)?.get(slot)
export const hasUnsent = (base) => unsent.has(base)

/** Keeps a draft, or forgets it if it is undefined. */
export function keepDraft(base, slot, draft) {
  const drafts = unsent.get(base) ?? new Map()
  if (draft) drafts.set(slot, draft)
  else drafts.delete(slot)
  if (drafts.size > 0) unsent.set(base, drafts)
  else unsent.delete(base)
}

/** What is unsent belongs to the person who wrote it. */
export const forgetUnsent = () => unsent.clear()
