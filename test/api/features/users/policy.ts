import t from 'tap'
import { exceededQuota, type QuotaName, type Usage } from '../../../../api/features/users/policy.ts'

const quotas = { storedBytes: 100, openUploads: 2 }
const table: [string, Usage, Partial<Usage>, QuotaName | undefined][] = [
  ['what just fits', { storedBytes: 60, openUploads: 1 }, { storedBytes: 40, openUploads: 1 }, undefined],
  ['one byte too many', { storedBytes: 60, openUploads: 0 }, { storedBytes: 41, openUploads: 1 }, 'storedBytes'],
  ['one upload too many', { storedBytes: 0, openUploads: 2 }, { storedBytes: 1, openUploads: 1 }, 'openUploads'],
  ['what was added is within', { storedBytes: 100, openUploads: 2 }, { storedBytes: 0, openUploads: 0 }, undefined],
  [
    'what was added is too much',
    { storedBytes: 101, openUploads: 2 },
    { storedBytes: 0, openUploads: 0 },
    'storedBytes',
  ],
  ['a whole file does not care for open uploads', { storedBytes: 0, openUploads: 9 }, { storedBytes: 1 }, undefined],
]
for (const [name, usage, more, expected] of table) {
  t.test(`${name}: ${expected ?? 'allowed'}`, async (t) => t.equal(exceededQuota(usage, quotas, more), expected))
}
