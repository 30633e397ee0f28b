import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { downloadPrefix } from '../../../../lib/contract/object-keys.ts'
import { madeOnce, type Part } from '../../../support/society.ts'

/** Older ones are not listed. */
const AT = new Date(Date.now() - 3_600_000).toISOString()
const FAR = '2099-01-01T00:00:00.000Z'

const exportsOf = madeOnce(({ draw, users, insert }) => {
  const exports = users.flatMap((owner) => draw.times(0, 2, () => ({ id: newUuid(), owner })))
  for (const { id, owner } of exports) {
    const key = `${downloadPrefix(owner.id, id)}1-1/keepsake.zip`
    insert('data_exports', {
      ...{ id, user_id: owner.id, state: 'completed', created_at: AT, completed_at: AT, expires_at: FAR },
    })
    insert('data_export_parts', {
      export_id: id,
      number: 1,
      user_id: owner.id,
      state: 'made',
      bytes: 9,
      done_bytes: 9,
      key,
    })
  }
  return exports
})

/** Each user sees their own exports, with links to their own files. */
export const part: Part = {
  of: (society) => void exportsOf(society),
  ask(society, who) {
    const shown = ({ id }: { id: string }) => ({
      ...{ export_id: formatId('export', id), status: 'completed', created_at: AT, completed_at: AT, expires_at: FAR },
      parts: [
        { number: 1, name: 'keepsake.zip', bytes: 9, download_url: `${downloadPrefix(who.id, id)}1-1/keepsake.zip` },
      ],
    })
    const all = exportsOf(society)
    const mine = all.filter(({ owner }) => owner === who).toSorted((a, b) => (a.id < b.id ? 1 : -1))
    return [
      { route: 'listDataExports', want: { exports: mine.map(shown) } },
      ...all.map((one) => ({
        ...{ route: 'getDataExport', params: { export_id: formatId('export', one.id) } },
        want: one.owner === who ? shown(one) : undefined,
      })),
    ]
  },
}
