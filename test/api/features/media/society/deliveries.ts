import { openLinks } from '../../../../../api/features/media/delivery/links.ts'
import { systemClock } from '../../../../../lib/runtime/clock.ts'
import { pathOf } from '../../../../support/api.ts'
import type { Question, Society } from '../../../../support/society.ts'

/** A link opens, for any caller, the file that it was signed for while the API keeps that file, and no other file. */
export function deliveries(
  { api }: Society,
  files: readonly { key: string; content: string | undefined }[],
): Question[] {
  const links = openLinks({ baseUrl: 'https://keepsake.example', keys: api.config.LINK_KEYS, clock: systemClock })
  const tokenOf = (key: string) => pathOf(links.url(key)).split('/')[2] ?? ''
  return files.flatMap(({ key, content }, n) => {
    const own = { token: tokenOf(key), path: key }
    const other = files[n + 1]?.key
    return [
      { route: 'deliver', params: own, want: content === undefined ? undefined : { text: content } },
      ...(other ? [{ route: 'deliver', params: { ...own, path: other }, want: undefined }] : []),
    ]
  })
}
