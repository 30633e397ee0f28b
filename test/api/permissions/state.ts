import t from 'tap'
import { inOrder, requireState, type State } from '../../../api/permissions/state.ts'

const archived = { code: 'EVENT_ARCHIVED', message: 'no' } as const
const says =
  (what: ReturnType<State<object>>): State<object> =>
  () =>
    what

t.test('a state refuses with its problem, and a repeat has nothing to change', async (t) => {
  t.equal(requireState(undefined, {}), true, 'an action without a state')
  t.equal(requireState(says(undefined), {}), true)
  t.equal(requireState(says('done'), {}), false)
  t.throws(() => requireState(says('gone'), {}), { code: 'NOT_FOUND', status: 404 })
  t.throws(() => requireState(says(archived), {}), { ...archived, status: 422 })
  t.throws(() => requireState(says({ ...archived, retryAfter: 2 }), {}), { ...archived, retryAfter: 2 })
})

t.test('of several states the first that objects decides', async (t) => {
  t.equal(inOrder(says(undefined), says(undefined))({}), undefined)
  t.strictSame(inOrder(says(undefined), says(archived), says('gone'))({}), archived)
  t.equal(inOrder(says('gone'), says(archived))({}), 'gone')
})
