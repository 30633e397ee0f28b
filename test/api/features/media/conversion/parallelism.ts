import t from 'tap'
import { parallelismOf } from '../../../../../api/features/media/conversion/parallelism.ts'

const GIB = 2 ** 30

const table: [what: string, bytes: number, maxParallelism: number, maxPerOrganization: number, pods: number][] = [
  ['one pod is all that is allowed', 100 * GIB, 1, 8, 1],
  ['an organization has one slot', 100 * GIB, 64, 1, 1],
  ['a highlight of a minute', 100 * 2 ** 20, 64, 64, 1],
  ['just below a GiB', GIB - 1, 64, 64, 1],
  ['a GiB', GIB, 64, 64, 2],
  ['just below two', 2 * GIB - 1, 64, 64, 2],
  ['a film of two hours', 12 * GIB, 64, 64, 13],
  ['more than is allowed', 12 * GIB, 8, 64, 8],
  ['more than the organization has slots', 12 * GIB, 64, 8, 8],
  ['the largest upload', 5000 * GIB, 64, 10_000, 64],
]
for (const [what, bytes, maxParallelism, maxPerOrganization, pods] of table) {
  t.test(`${what}: ${pods}`, async (t) => {
    t.equal(parallelismOf(bytes, { maxParallelism, maxPerOrganization }), pods)
  })
}
