import { once } from 'node:events'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import { archiveOf } from '../../../../api/features/data-exports/archive.ts'
import {
  comparable,
  namePaths,
  numberedPath,
  segmentOf,
  wantedPath,
} from '../../../../api/features/data-exports/path-plan.ts'
import {
  archiveBytes,
  archiveName,
  entryBytes,
  LIMITS,
  type Packing,
  place,
} from '../../../../api/features/data-exports/plan.ts'

const at = new Date('2026-07-04T16:30:00Z')

const SEGMENTS: [string, string][] = [
  ['IMG_0001.JPG', 'IMG_0001.JPG'],
  ['../../etc/passwd', '_.._etc_passwd'],
  ['..\\..\\boot.ini', '_.._boot.ini'],
  ['C:\\a.jpg', 'C__a.jpg'],
  ['a/b\u0000c\u001f?.png', 'a_b_c__.png'],
  ['E\u0301te\u0301.jpg', 'Été.jpg'],
  ['con', '_con'],
  ['NUL.txt', '_NUL.txt'],
  ['com¹.jpg', '_com¹.jpg'],
  ['LPT9.tar.gz', '_LPT9.tar.gz'],
  ['console.txt', 'console.txt'],
  ['name. ', 'name'],
  ['...', 'file'],
  ['', 'file'],
  ['.jpg', 'file.jpg'],
  ['.htaccess', 'file.htaccess'],
  ['trailing .jpg', 'trailing.jpg'],
  ['photo\u202egpj.exe', 'photogpj.exe'],
  ['\u200b', 'file'],
  ['a\ud800.jpg', 'a\ufffd.jpg'],
  ['<script>.jpg', '_script_.jpg'],
]
t.test('a name of a person becomes one segment that no system takes for anything else', async (t) => {
  for (const [given, wanted] of SEGMENTS) t.equal(segmentOf(given, 'file'), wanted, JSON.stringify(given))
  for (const long of ['ü'.repeat(300), '👩‍👩‍👧‍👦'.repeat(50), 'a'.repeat(255)]) {
    const cut = segmentOf(`${long}.jpeg`, 'file')
    t.ok(Buffer.byteLength(cut) <= 200)
    t.match(cut, /[^\ufffd]\.jpeg$/)
  }
})

t.test('paths have the year, and the day and title of the event', async (t) => {
  const file = { filename: 'a.jpg', takenAt: at, event: undefined }
  t.equal(wantedPath(file), '2026/2026-07/a.jpg')
  const event = { title: 'Klassentreffen: 20 Jahre/„Abi“?', startAt: new Date('2025-11-21T20:00:00Z') }
  t.equal(wantedPath({ ...file, event }), '2025/2025-11-21 Klassentreffen_ 20 Jahre_„Abi“_/a.jpg')
  t.equal(wantedPath({ ...file, takenAt: new Date('0099-01-02T00:00:00Z') }), '0099/0099-01/a.jpg')
})

t.test(
  'doubles get numbers in the order of their ids, without regard to case, and collide with no real name',
  async (t) => {
    const files = ['IMG.jpg', 'img.JPG', 'IMG (2).jpg', 'IMG.jpg', 'other.jpg'].map((name, n) => ({
      mediaId: String(n),
      wanted: `2026/2026-07/${name}`,
    }))
    const stored = new Set<string>()
    const none = async (paths: readonly string[]) => new Set(paths.filter((path) => stored.has(path)))
    const first = await namePaths(files, new Map(), none)
    t.strictSame(
      [...first.values()].map(({ path }) => path.split('/')[2]).toSorted(),
      ['IMG (2) (2).jpg', 'IMG (3).jpg', 'IMG.jpg', 'img (2).JPG', 'other.jpg'].toSorted(),
    )
    t.strictSame(await namePaths(files, new Map(), none), first, 'the same again')
    for (const { path } of first.values()) stored.add(comparable(path))
    const highest = new Map([[comparable('2026/2026-07/IMG.jpg'), 3]])
    const later = await namePaths([{ mediaId: '9', wanted: '2026/2026-07/IMG.jpg' }], highest, none)
    t.equal(later.get('9')?.path, '2026/2026-07/IMG (4).jpg')
    t.equal(comparable('STRASSE'), comparable('straße'))
    t.ok(Buffer.byteLength(numberedPath(`a/${'x'.repeat(196)}.jpg`, 12)) <= 202)
  },
)

t.test('files fill parts in order; a file that fits in none has one of its own', async (t) => {
  let packing: Packing = { open: 1, openBytes: 0, openFiles: 0, last: 1 }
  const GB = 1e9
  const parts = [3, 2, 9, 1, 1.2, 1.9, 3.95].map((size) => {
    const placed = place(packing, size * GB, LIMITS)
    packing = placed.packing
    return placed.part
  })
  t.strictSame(parts, [1, 2, 3, 2, 4, 4, 5])
  const many: Packing = { open: 2, openBytes: 0, openFiles: LIMITS.files, last: 2 }
  t.equal(place(many, 1, LIMITS).part, 3)
  t.equal(archiveName(at, 1, 1), 'keepsake-2026-07-04.zip')
  t.equal(archiveName(at, 2, 3), 'keepsake-2026-07-04-part-2-of-3.zip')
})

t.test('the length of an archive is known before it is made', async (t) => {
  for (const count of [1, 3, 700]) {
    const entries = Array.from({ length: count }, (_, n) => ({
      path: `2026/Été ${n}/bild-${n}.jpg`,
      bytes: (n % 7) * 100,
      at: new Date(n % 2 ? '0001-01-01T00:00:00Z' : '9999-01-01T00:00:00Z'),
      open: async () => Readable.from([Buffer.alloc((n % 7) * 100, n)]),
    }))
    const bytes = await buffer(archiveOf(entries))
    t.equal(bytes.length, archiveBytes(entries))
  }
  t.equal(entryBytes({ path: 'ab', bytes: 5 }), 30 + 2 + 5 + 16 + 46 + 2 + 9)
})

t.test('an error of a source ends the archive, and a reader that stops closes the source', async (t) => {
  const failing = new Readable({ read() {} })
  const entries = [{ path: 'a', bytes: 1, at, open: async () => failing }]
  const reading = buffer(archiveOf(entries))
  setImmediate(() => failing.destroy(new Error('gone')))
  await t.rejects(reading, { message: 'gone' })
  const short = [{ path: 'a', bytes: 5, at, open: async () => Readable.from([Buffer.alloc(4)]) }]
  await t.rejects(buffer(archiveOf(short)), { message: /unexpected number of bytes/ }, 'never padded')
  await t.rejects(
    buffer(archiveOf([{ path: 'a', bytes: 5, at, open: () => Promise.reject(new Error('not opened')) }])),
    { message: 'not opened' },
  )
  const endless = new Readable({
    read() {
      this.push(Buffer.alloc(1000))
    },
  })
  const stopped = archiveOf([{ path: 'a', bytes: 1e9, at, open: async () => endless }])
  for await (const chunk of stopped) if ((chunk as Buffer).length > 100) break
  if (!endless.closed) await once(endless, 'close')
  t.ok(endless.destroyed)
})
