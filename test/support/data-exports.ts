import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { newUuid, type Uuid } from '../../lib/contract/ids.ts'
import { originalKey } from '../../lib/contract/object-keys.ts'
import type { ObjectStore } from '../../lib/runtime/object-store/object-store.ts'
import type { TestDatabase } from './database.ts'

const run = promisify(execFile)

/** Info-ZIP, which every archive is checked with, beside Python where it is there. */
export const noUnzip = existsSync('/usr/bin/unzip') ? undefined : 'unzip is not installed'

interface Teardown {
  teardown(done: () => Promise<void>): void
}

/** What programs of others find in an archive: the text of each file by its path. Throws unless they find it whole. */
export async function unpack(t: Teardown, bytes: Buffer): Promise<{ folder: string; files: Map<string, Buffer> }> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-archive-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const archive = join(folder, 'archive.zip')
  await writeFile(archive, bytes)
  const at = { cwd: folder, maxBuffer: 2 ** 26, env: { ...process.env, LC_ALL: 'C.UTF-8' } }
  await run('unzip', ['-tqq', archive], at)
  const listed = (await run('zipinfo', ['-1', archive], at)).stdout.split('\n').filter(Boolean)
  const inside = join(folder, 'inside')
  await run('unzip', ['-qq', archive, '-d', inside], at)
  const files = new Map<string, Buffer>()
  for (const path of listed) files.set(path, await readFile(join(inside, path)))
  return { folder: inside, files }
}

/** What Python's zipfile says of an archive: the names, and the first entry that is broken, which is none. */
export async function pythonSays(t: Teardown, bytes: Buffer): Promise<{ names: string[]; broken: string | null }> {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-archive-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const archive = join(folder, 'archive.zip')
  await writeFile(archive, bytes)
  const script = `import json, sys, zipfile
z = zipfile.ZipFile(sys.argv[1])
print(json.dumps({"names": z.namelist(), "broken": z.testzip()}))`
  return JSON.parse((await run('python3', ['-c', script, archive])).stdout)
}

/** An original with its row, as an upload leaves them. */
export async function anOriginal(
  { admin, store }: { admin: TestDatabase['admin']; store: ObjectStore },
  o: { orgId: Uuid; userId: Uuid; name: string; content: Buffer | string; mimeType?: string; takenAt?: string },
): Promise<Uuid> {
  const id = newUuid()
  const content = Buffer.from(o.content)
  const { mimeType = 'image/jpeg', takenAt = '2026-07-04T16:30:00Z' } = o
  await store.put(originalKey(o.orgId, id), content, { contentType: mimeType })
  await admin.query(
    `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, captured_at,
       upload_status, conversion_state)
     values ($1, $2, $3, $4, $5, $6, $7, $8, 'completed', 'succeeded')`,
    [id, o.orgId, o.userId, o.name, mimeType, mimeType.split('/')[0], content.length, takenAt],
  )
  return id
}
