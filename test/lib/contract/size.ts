import t from 'tap'
import { sizeText } from '../../../lib/contract/size.ts'

const CASES: [bytes: number, text: string][] = [
  [10 * 1024 ** 3, '10 GiB'],
  [1024 ** 3, '1 GiB'],
  [1.5 * 1024 ** 3, '1536 MiB'],
  [512 * 1024 ** 2, '512 MiB'],
  [64 * 1024, '64 KiB'],
  [1025, '1025 bytes'],
  [0, '0 bytes'],
]
for (const [bytes, text] of CASES) t.equal(sizeText(bytes), text)
