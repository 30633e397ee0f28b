import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describeAudit } from './support/audit-document.ts'

/** `node test/write-audit-document.ts` writes docs/audit.md. It lies here because it needs the compiler of TypeScript. */
await writeFile(join(import.meta.dirname, '../docs/audit.md'), await describeAudit())
