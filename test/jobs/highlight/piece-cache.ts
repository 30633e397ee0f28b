import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { openPieceCache } from '../../../jobs/highlight/piece-cache.ts'
import { pieceScope } from '../../../lib/contract/piece-scope.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'
import { countingStore } from '../../support/counting-store.ts'
import { quietLog } from '../../support/quiet-log.ts'

/** What a hostile job may have stored where a highlight looks for pieces. */

const MIB = 1024 ** 2
const PREFIX = 'org/o/media/m/pieces/'
const items = [{ sourceKey: 'org/o/media/m/original' }]
const AT = `${PREFIX}${pieceScope(items)}digest/`
const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const PICTURES = Buffer.from('pictures')
const good = { name: '360p.ts', bytes: PICTURES.length, sha256: sha256(PICTURES) }
const keyOf = (file: typeof good) => `${AT}${file.sha256.slice(0, 16)}-${file.name}`

function open(t: Test) {
  const folder = openFolderStore({ folder: t.testdir() })
  const { store, count } = countingStore(folder)
  const { signal } = new AbortController()
  const cache = openPieceCache({ store, items, signal, log: quietLog(), limitBytes: MIB })
  const to = join(t.testdirName, 'piece')
  return {
    count,
    to,
    put: (key: string, body: string | Buffer) => folder.put(key, body, { contentType: 'video/mp2t' }),
    find: () => cache.find(PREFIX, 'digest', to, async () => true),
  }
}

t.test('a stored piece is fetched', async (t) => {
  const { put, find, to } = open(t)
  await put(keyOf(good), PICTURES)
  await put(`${AT}piece.json`, JSON.stringify({ files: [good] }))
  t.equal(await find(), true)
  t.strictSame(await readFile(join(to, '360p.ts')), PICTURES)
})

t.test('an index larger than any index is not read', async (t) => {
  const { put, find, count, to } = open(t)
  await put(keyOf(good), PICTURES)
  await put(`${AT}piece.json`, JSON.stringify({ files: [good] }).padEnd(20 * MIB))
  t.equal(await find(), false)
  t.ok(count.asked <= 4096, `${count.asked} bytes were asked for`)
  t.notOk(existsSync(to))
})

t.test('a file of another size than its index says is not read', async (t) => {
  const { put, find, count, to } = open(t)
  await put(keyOf(good), Buffer.alloc(20 * MIB))
  await put(`${AT}piece.json`, JSON.stringify({ files: [good] }))
  t.equal(await find(), false)
  t.ok(count.asked <= 4096, `${count.asked} bytes were asked for`)
  t.notOk(existsSync(to))
})

t.test('files larger together than any piece are not read', async (t) => {
  const { put, find, count } = open(t)
  const large = { ...good, bytes: 30 * MIB }
  const files = Array.from({ length: 8 }, (_, k) => ({ ...large, name: `${k}p.ts` }))
  for (const file of files) await put(keyOf(file), 'x')
  await put(`${AT}piece.json`, JSON.stringify({ files }))
  t.equal(await find(), false)
  t.equal(count.reads, 1, 'the index alone')
})
