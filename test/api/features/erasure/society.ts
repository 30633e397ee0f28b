import { formatId, newUuid } from '../../../../lib/contract/ids.ts'
import { AT, madeOnce, type Part, word } from '../../../support/society.ts'

const erasuresOf = madeOnce(({ draw, users, insert }) => {
  const erasures = users.slice(0, 2).map((user) => ({ id: newUuid(), user, reason: word('Reason') }))
  insert(
    'erasures',
    ...erasures.map(({ id, user, reason }) => ({
      ...{ id, user_id: user.id, reason, status: 'processing', requested_at: AT },
      asked_by: draw.one('user', 'administrator', 'ledger'),
    })),
  )
  return erasures
})

const questionOf = (id: string, want: object | undefined) => ({
  ...{ route: 'getAnonymization', params: { anonymization_id: formatId('anonymization', id) }, want },
})

/** Erasures are shown to platform administrators alone, and to who has the token that the request answered with. */
export const part: Part = {
  of: (society) => void erasuresOf(society),
  ask: (society) => erasuresOf(society).map(({ id }) => questionOf(id, undefined)),
  askAsNobody: (society) => erasuresOf(society).map(({ id }) => questionOf(id, undefined)),
  askAsAdministrator: (society) =>
    erasuresOf(society).map(({ id, user, reason }) =>
      questionOf(id, {
        ...{ anonymization_id: formatId('anonymization', id), user_id: formatId('user', user.id), reason },
        ...{ status: 'processing', requested_at: AT, completed_at: null, certificate: null, steps: [] },
      }),
    ),
}
