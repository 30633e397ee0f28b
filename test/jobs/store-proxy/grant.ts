import t from 'tap'
import { permits, type Target } from '../../../jobs/store-proxy/grant.ts'
import { pieceScope } from '../../../lib/contract/piece-scope.ts'
import { grantFor, StoreGrant } from '../../../lib/contract/store-proxy.ts'

const granted = grantFor([
  { sourceKey: 'org/1/media/a/original', outputPrefix: 'org/1/media/a/v1/' },
  { sourceKey: 'org/1/media/b/original', outputPrefix: 'org/1/media/b/v1/' },
])
const grant = StoreGrant.parse(granted)

t.test('is the sources of a Job and its output prefixes', async (t) => {
  const both = {
    read: ['org/1/media/a/original', 'org/1/media/b/original'],
    write: ['org/1/media/a/v1/', 'org/1/media/b/v1/'],
  }
  t.strictSame(granted, both)
  t.strictSame(grant, { ...both, remove: [] }, 'and nothing else may be removed')
})

t.test('is where a source is once it has moved to the cold tier, too, for reading alone', async (t) => {
  const allowed = (key: string) =>
    (['read', 'list', 'write', 'remove'] as const).filter((action) => permits(grant, { key }, action))
  t.strictSame(allowed('org/1/media/a/cold/original'), ['read'])
  for (const key of ['org/1/media/a/cold/other', 'org/1/media/c/cold/original', 'org/1/cold/media/a/cold/original'])
    t.strictSame(allowed(key), [], key)
})

t.test('what may be removed may be listed, and neither be read nor be written', async (t) => {
  const removing = { read: [], write: ['a/pieces/own/'], remove: ['a/pieces/'] }
  const allowed = (target: Target) =>
    (['read', 'list', 'write', 'remove'] as const).filter((action) => permits(removing, target, action))
  t.strictSame(allowed({ key: 'a/pieces/other/x' }), ['list', 'remove'])
  t.strictSame(allowed({ prefix: 'a/pieces/' }), ['list', 'remove'])
  t.strictSame(allowed({ key: 'a/pieces/own/x' }), ['read', 'list', 'write', 'remove'])
  t.strictSame(allowed({ key: 'a/original' }), [])
  t.strictSame(allowed({ prefix: 'a/pieces/../' }), [])
})

t.test('pieces of highlights whose sources are all in this one may be read, and not be written', async (t) => {
  const highlight = (...ids: string[]) => pieceScope(ids.map((sourceKey) => ({ sourceKey })))
  const granted = { read: ['a', 'b', 'c'], write: [], remove: ['a/pieces/'] }
  const allowed = (key: string, grant: StoreGrant = granted) =>
    (['read', 'list', 'write', 'remove'] as const).filter((action) => permits(grant, { key }, action))
  t.strictSame(allowed(`a/pieces/${highlight('a', 'b')}1/piece.json`), ['read', 'list', 'remove'])
  t.strictSame(
    allowed(`a/pieces/${highlight('a', 'd')}1/piece.json`),
    ['list', 'remove'],
    'of a highlight with another source',
  )
  t.strictSame(allowed(`a/pieces/${highlight('a')}../${highlight('d')}1`), [], 'by a way around')
  t.strictSame(allowed(`b/pieces/${highlight('a')}1/piece.json`), [], 'below no prefix of this highlight')
  t.strictSame(allowed(`a/pieces/x/${highlight('a')}1/piece.json`), ['list', 'remove'], 'not where scopes are')
  t.strictSame(
    allowed(`a/pieces/${highlight('a').slice(0, -1)}`),
    ['list', 'remove'],
    'an object with the name of a scope',
  )
  t.strictSame(
    allowed(`a/pieces/${highlight('a')}1/piece.json`, { ...granted, remove: [] }),
    [],
    'in no grant of a conversion',
  )
})

const rows: [name: string, target: Target, read: boolean, write: boolean][] = [
  ['a source', { key: 'org/1/media/a/original' }, true, false],
  ['what its name begins with', { key: 'org/1/media/a/origin' }, false, false],
  ['what begins with its name', { key: 'org/1/media/a/original.bak' }, false, false],
  ['an output', { key: 'org/1/media/b/v1/manifest.json' }, true, true],
  ['the folder of the outputs itself', { key: 'org/1/media/b/v1' }, false, false],
  ['a neighbour of the outputs', { key: 'org/1/media/b/v10/manifest.json' }, false, false],
  ['the source of another Job', { key: 'org/1/media/c/original' }, false, false],
  ['a way out of the outputs', { key: 'org/1/media/b/v1/../../c/original' }, false, false],
  ['an encoded way out', { key: 'org/1/media/b/v1/%2e%2e/c' }, false, false],
  ['no key at all', { key: '' }, false, false],
  ['all outputs', { prefix: 'org/1/media/b/v1/' }, true, true],
  ['some outputs', { prefix: 'org/1/media/b/v1/seg' }, true, true],
  ['everything', { prefix: '' }, false, false],
  ['everything of the media item', { prefix: 'org/1/media/b/' }, false, false],
  ['what begins like the outputs', { prefix: 'org/1/media/b/v1' }, false, false],
  ['a way out by a prefix', { prefix: 'org/1/media/b/v1/../' }, false, false],
  ['nothing in particular', 'nothing', true, true],
]
for (const [name, target, read, write] of rows) {
  t.test(name, async (t) => {
    t.equal(permits(grant, target, 'read'), read, 'read')
    t.equal(permits(grant, target, 'write'), write, 'write')
  })
}
