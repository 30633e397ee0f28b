import t from 'tap'
import { permits, type Target } from '../../../jobs/store-proxy/grant.ts'
import { grantFor } from '../../../lib/contract/store-proxy.ts'

const grant = grantFor([
  { sourceKey: 'org/1/media/a/original', outputPrefix: 'org/1/media/a/v1/' },
  { sourceKey: 'org/1/media/b/original', outputPrefix: 'org/1/media/b/v1/' },
])

t.test('is the sources of a Job and its output prefixes', async (t) => {
  t.strictSame(grant, {
    read: ['org/1/media/a/original', 'org/1/media/b/original'],
    write: ['org/1/media/a/v1/', 'org/1/media/b/v1/'],
  })
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
