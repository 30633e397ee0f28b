import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { downloadPrefix } from '../../../../lib/contract/object-keys.ts'
import { AT, madeOnce, type Part } from '../../../support/society.ts'

const FAR = '2099-01-01T00:00:00.000Z'

const exportsOf = madeOnce(({ api, draw, users, insert }) => {
  const owners = [api.people.platformAdmin, ...users]
  const exports = owners.flatMap((owner) => draw.times(1, 2, () => ({ id: newUuid(), owner })))
  insert(
    'audit_exports',
    ...exports.map(({ id, owner }) => ({
      ...{ id, user_id: owner.id, format: 'csv', filters: {}, until: AT, state: 'completed', entries: 7, bytes: 9 },
      ...{ object_key: `${downloadPrefix(owner.id, id)}1/audit.csv` },
      ...{ created_at: AT, completed_at: AT, expires_at: FAR },
    })),
  )
  return exports
})

const questionOf = (id: string, want: object | undefined) => ({
  ...{ route: 'getAuditExport', params: { export_id: formatId('export', id) }, want },
})

/** Each platform administrator sees their own exports, and those who are none see not even what they asked for before. */
export const part: Part = {
  of: (society) => void exportsOf(society),
  ask: (society) => exportsOf(society).map(({ id }) => questionOf(id, undefined)),
  askAsAdministrator: (society) =>
    exportsOf(society).map(({ id, owner }) => {
      const shown = {
        ...{ export_id: formatId('export', id), status: 'completed', format: 'csv', created_at: AT, completed_at: AT },
        progress: { entries: 7, bytes: 9, reached: null },
        download_url: `${downloadPrefix(owner.id, id)}1/audit.csv`,
        expires_at: FAR,
      }
      return questionOf(id, owner === society.api.people.platformAdmin ? shown : undefined)
    }),
}
