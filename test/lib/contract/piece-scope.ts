import t from 'tap'
import { coldKeyOf } from '../../../lib/contract/cold-key.ts'
import { mayUse, pieceScope } from '../../../lib/contract/piece-scope.ts'
import { isObjectKey } from '../../../lib/runtime/object-store/key.ts'

const keysOf = (ids: readonly string[]) => ids.map((id) => `org/o/media/${id}/original`)
const scopeOf = (...ids: string[]) => pieceScope(keysOf(ids).map((sourceKey) => ({ sourceKey })))
const many = (count: number) => Array.from({ length: count }, (_, k) => String(k))

t.test('a scope names the sources of a highlight, in any order and each once', async (t) => {
  t.match(scopeOf('a'), /^01\.[\w-]{22}\/$/)
  t.equal(scopeOf('b', 'a', 'b'), scopeOf('a', 'b'))
  t.match(scopeOf('a', 'b'), /^02\.[\w-]{44}\/$/)
  t.not(scopeOf('a', 'b'), scopeOf('a', 'c'))
})

t.test('the scope of any highlight is a name that every store takes, and the highlight may use it', async (t) => {
  for (let count = 1; count <= 30; count++) {
    const scope = scopeOf(...many(count))
    if (!isObjectKey(`org/o/pieces/${scope}piece.json`)) t.fail(`${count}: ${scope}`)
    if (!mayUse(keysOf(many(30)), scope)) t.fail(`a highlight of 30 may not use pieces of a highlight of ${count}`)
    if (mayUse(keysOf(many(30).slice(1)), scope)) t.fail(`${count}: used without the first source`)
  }
  t.equal(scopeOf(...many(30)).length, 184)
})

t.test('a source that has moved to the cold tier keeps its scopes', async (t) => {
  const [hot, cold] = [keysOf(['a', 'b']), keysOf(['a', 'b']).map(coldKeyOf)]
  const scope = scopeOf('a', 'b')
  t.equal(pieceScope(cold.map((sourceKey) => ({ sourceKey }))), scope)
  t.equal(pieceScope([...hot, ...cold].map((sourceKey) => ({ sourceKey }))), scope, 'it is one source')
  t.ok(mayUse(cold, scope))
  t.notOk(mayUse(keysOf(['a', 'c']).map(coldKeyOf), scope))
})

const rows: [name: string, highlight: string[], scope: string, may: boolean][] = [
  ['its own', ['a', 'b'], scopeOf('b', 'a'), true],
  ['those of a highlight of some of its sources', ['a', 'b', 'c'], scopeOf('a', 'c'), true],
  ['those of a highlight with a source that it lacks', ['a', 'b'], scopeOf('a', 'b', 'c'), false],
  ['those of a highlight of other sources', ['a'], scopeOf('b'), false],
  ['those of no source', ['a'], '00./', false],
  ['a folder that says another number', ['a', 'b'], scopeOf('a', 'b').replace('02', '01'), false],
  ['a folder that names one source twice', ['a'], scopeOf('a').replace(/01\.(.*)\//, '02.$1$1/'), false],
  ['those of a folder without its slash', ['a'], scopeOf('a').slice(0, -1), false],
  ['a folder with something behind the names', ['a'], scopeOf('a').replace('/', 'x/'), false],
  ['a folder below', ['a'], `${scopeOf('a')}${scopeOf('a')}`, false],
]
for (const [name, highlight, scope, may] of rows) {
  t.test(`${name}: ${may ? 'may be used' : 'may not be used'}`, async (t) => {
    t.equal(mayUse(keysOf(highlight), scope), may)
  })
}
