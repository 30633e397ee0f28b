import type { OwnData } from '../../requests/own-data.ts'
import { type ExportContents, ownContent } from './content.ts'
import { eventContent } from './event-content.ts'

/** What exports can be of. `all`: what each feature has of a person. */
export function contentsOf(all: readonly OwnData[]): ExportContents {
  const own = ownContent(all)
  return { own, event: eventContent(own.files) }
}
