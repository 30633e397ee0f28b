import t from 'tap'
import { type Folder, folderOf, isPrefix, ROOTS } from '../../../api/orphans/folder-plan.ts'
import {
  type Asked,
  FATES,
  type Facts,
  type Fate,
  fateOf,
  refusalOf,
  type Tally,
  YOUNG_MS,
} from '../../../api/orphans/plan.ts'
import { type Found, foldersIn } from '../../../api/orphans/scan.ts'
import { coldKeyOf } from '../../../lib/contract/cold-key.ts'
import { newUuid } from '../../../lib/contract/ids.ts'
import * as keys from '../../../lib/contract/object-keys.ts'

const [org, id, user] = [newUuid(), newUuid(), newUuid()]
const media = { kind: 'media', path: keys.mediaPrefix(org, id), row: id, orgId: org }
const highlight = { kind: 'highlight', path: keys.highlightPrefix(org, id), row: id, orgId: org }
const staging = { kind: 'staging', path: keys.stagingPrefix(org, id), row: id, orgId: org }
const download = { kind: 'download', path: keys.downloadPrefix(user, id), row: id, userId: user }
const day = keys.auditDayKey('2026-01-31', id)
const archived = (key: string) => ({ kind: 'audit-day', path: key, row: key, day: '2026-01-31' })

/** Each function that makes a key, with a key that comes of it: one that is new has to be thought about here. */
const MADE: Record<keyof typeof keys, readonly [key: string, folder: object][]> = {
  mediaPrefix: [[`${keys.mediaPrefix(org, id)}x`, media]],
  originalKey: [[keys.originalKey(org, id), media]],
  coldOriginalKey: [[keys.coldOriginalKey(org, id), media]],
  originalKeyIn: [[keys.originalKeyIn('cold', org, id), media]],
  outputPrefix: [[`${keys.outputPrefix(org, id, 3)}240p_00001.ts`, media]],
  manifestKey: [[keys.manifestKey(keys.outputPrefix(org, id, 1)), media]],
  masterKey: [[keys.masterKey(keys.renderPrefix(org, id, 1)), highlight]],
  stagingPrefix: [[`${keys.stagingPrefix(org, id)}x`, staging]],
  stagedChunkKey: [[keys.stagedChunkKey(org, id, 7), staging]],
  highlightPrefix: [[`${keys.highlightPrefix(org, id)}x`, highlight]],
  renderPrefix: [[`${keys.renderPrefix(org, id, 2)}master.m3u8`, highlight]],
  piecesPrefix: [[`${keys.piecesPrefix(org, id)}02.aa/x.ts`, media]],
  downloadsPrefix: [[`${keys.downloadsPrefix(user)}${id}/x`, download]],
  downloadPrefix: [[`${keys.downloadPrefix(user, id)}1-2/photos-1.zip`, download]],
  trackKey: [[keys.trackKey(id), { kind: 'track', path: `tracks/${id}/`, row: id }]],
  auditDayKey: [
    [day, archived(day)],
    [coldKeyOf(day), archived(coldKeyOf(day))],
  ],
  retentionReportKey: [
    [
      keys.retentionReportKey('trash-28416960'),
      { kind: 'report', path: keys.retentionReportKey('trash-28416960'), row: 'trash-28416960' },
    ],
  ],
}

t.test('every key that is made belongs to a folder, below what is listed', async (t) => {
  t.strictSame(Object.keys(MADE).sort(), Object.keys(keys).sort())
  for (const [name, made] of Object.entries(MADE)) {
    for (const [key, folder] of made) {
      t.strictSame(folderOf(key), folder, name)
      t.ok(
        ROOTS.some((root) => key.startsWith(root)),
        name,
      )
      t.equal(isPrefix(folderOf(key) as Folder), (folder as Folder).path !== key, name)
    }
  }
})

t.test('any other key belongs to none', async (t) => {
  const others = [
    'erasures/key',
    `erasures/ledger/${'a'.repeat(64)}`,
    'audit/anchors/latest.json',
    `audit/anchors/t1/days/2026-01-31/${'a'.repeat(32)}.json`,
    `keepsake-check/cold/${id}`,
    // The prefix itself, and what only looks like one.
    keys.mediaPrefix(org, id),
    `org/${org}/media/${id}`,
    `org/${org}/avatars/${id}/x`,
    `org/${org}/media/${id.toUpperCase()}/original`,
    `org/main/media/${id}/original`,
    `old/org/${org}/media/${id}/original`,
    `downloads/${user}/x`,
    `downloads/${user}/latest/x`,
    `tracks/${id}`,
    `audit/days/2026-01-31.${id}.jsonl`,
    `audit/days/2026-01-31x${id}.jsonl.gz`,
    `audit/days/warm/2026-01-31.${id}.jsonl.gz`,
    'retention/reports/run.csv',
    'retention/reports/a/b.jsonl.gz',
    '',
  ]
  for (const key of others) t.equal(folderOf(key), undefined, key)
})

t.test('what becomes of a folder', async (t) => {
  const now = Date.parse('2026-11-27T12:00:00Z')
  const orphan: Facts = { hasRow: false, newestMs: now - YOUNG_MS, nowMs: now, isHeld: false, isOnlyCopy: false }
  const table: [change: Partial<Facts>, fate: Fate][] = [
    [{}, 'orphan'],
    [{ newestMs: 0 }, 'orphan'],
    [{ hasRow: true }, 'row'],
    [{ hasRow: true, isHeld: true, isOnlyCopy: true, newestMs: now }, 'row'],
    [{ newestMs: now - YOUNG_MS + 1 }, 'young'],
    [{ newestMs: now }, 'young'],
    // A clock that differs, and a time that is none.
    [{ newestMs: now + YOUNG_MS }, 'young'],
    [{ newestMs: Number.NaN }, 'young'],
    [{ nowMs: Number.NaN }, 'young'],
    [{ isHeld: true }, 'held'],
    [{ isHeld: true, newestMs: now }, 'young'],
    [{ isOnlyCopy: true }, 'kept'],
    [{ isOnlyCopy: true, isHeld: true }, 'held'],
  ]
  for (const [change, fate] of table) t.equal(fateOf({ ...orphan, ...change }), fate, JSON.stringify(change))
})

type Counts = Partial<Record<Fate, number>>
const talliesOf = (counts: Counts) =>
  Object.fromEntries(
    FATES.map((fate): [Fate, Tally] => [fate, { folders: counts[fate] ?? 0, objects: 0, bytes: 0 }]),
  ) as Record<Fate, Tally>

t.test('a database that may be another one deletes nothing', async (t) => {
  const empty = /this is not the database of this store/
  const most = /--most/
  const anchors = /later audit log/
  type Row = [all: Counts, media: Counts, asked: Partial<Asked>, refusal: RegExp | undefined]
  const table: Row[] = [
    [{}, {}, {}, undefined],
    [{ row: 5 }, { row: 5 }, {}, undefined],
    [{ row: 5, orphan: 5 }, { row: 5, orphan: 5 }, {}, undefined],
    [{ row: 5, orphan: 6 }, { row: 5, orphan: 5 }, {}, most],
    [{ row: 5, orphan: 6 }, { row: 5, orphan: 5 }, { most: true }, undefined],
    // What is not deleted has no row all the same.
    [{ row: 5, young: 6 }, { row: 5 }, {}, most],
    [{ row: 5, orphan: 2, held: 2, kept: 2 }, { row: 5 }, {}, most],
    // Other kinds do not make up for media items.
    [{ row: 105, orphan: 6 }, { row: 5, orphan: 6 }, {}, most],
    [{ row: 105, orphan: 6 }, { row: 5, orphan: 6 }, { most: true }, undefined],
    [{ row: 100, orphan: 1 }, { orphan: 1 }, {}, empty],
    [{ row: 100, young: 1 }, { young: 1 }, { most: true }, empty],
    // The worst: no flag is enough.
    [{ orphan: 300 }, { orphan: 250 }, { most: true }, empty],
    [{ orphan: 1 }, {}, { most: true }, empty],
    [{ row: 5, orphan: 1 }, { row: 5, orphan: 1 }, { isBehind: true }, anchors],
    [{ row: 5, orphan: 1 }, { row: 5, orphan: 1 }, { isBehind: true, most: true }, anchors],
  ]
  for (const [all, of, asked, refusal] of table) {
    const said = refusalOf({ all: talliesOf(all), media: talliesOf(of) }, { most: false, isBehind: false, ...asked })
    if (refusal) t.match(said, refusal, JSON.stringify([all, of, asked]))
    else t.equal(said, undefined, JSON.stringify([all, of, asked]))
  }
})

t.test('objects in key order become folders, with the newest of each', async (t) => {
  const [a, b] = ['1', '2'].map((digit) => digit.repeat(8) + newUuid().slice(8)) as [string, string]
  const listed = [
    [`${keys.mediaPrefix(org, a)}cold/original`, 10, 5],
    [`${keys.mediaPrefix(org, a)}v1/master.m3u8`, 1, 9],
    [`${keys.mediaPrefix(org, a)}v1/thumb.webp`, 2, 7],
    [keys.originalKey(org, b), 20, 3],
    [`org/${org}/other/x`, 100, 1],
    [`org/${org}/other/y`, 200, 1],
    [keys.stagedChunkKey(org, b, 0), 30, 4],
  ] as const
  async function* objects() {
    for (const [key, size, at] of listed) yield { key, size, lastModified: new Date(at) }
  }
  const unknown: string[] = []
  const found: Found[] = []
  for await (const one of foldersIn(objects(), ({ key }) => unknown.push(key))) found.push(one)
  t.match(
    found.map(({ path, objects, bytes, newestMs }) => [path, objects, bytes, newestMs]),
    [
      [keys.mediaPrefix(org, a), 3, 13, 9],
      [keys.mediaPrefix(org, b), 1, 20, 3],
      [keys.stagingPrefix(org, b), 1, 30, 4],
    ],
  )
  t.equal(found.length, 3)
  t.strictSame(unknown, [`org/${org}/other/x`, `org/${org}/other/y`])
})
