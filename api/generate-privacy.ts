import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { inOrder } from './features/erasure/plan.ts'
import { ERASE_STEPS, PERSONAL_PARTS } from './features.ts'
import { describePrivacy } from './personal/document.ts'

/** `node api/generate-privacy.ts` writes docs/privacy.md from what every part of the program says about people. */
const tables = Object.assign({}, ...PERSONAL_PARTS.map(({ personal }) => personal))
await writeFile(join(import.meta.dirname, '../docs/privacy.md'), describePrivacy(tables, inOrder(ERASE_STEPS)))
