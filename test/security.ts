import { readFile } from 'node:fs/promises'
import t from 'tap'

/** docs/security.md claims nothing without a test: a row names files, and of each the name of a test or a part of it. */
const text = await readFile('docs/security.md', 'utf8')
const rows = text.split('\n').filter((line) => /^\| (\d|[a-zA-Z])/.test(line) && line.includes('`test/'))
const tables = text.split('\n## ').filter((part) => part.includes('| claim | test |'))

t.test('each row of a table of claims names a test', async (t) => {
  const ofTables = tables.flatMap((part) =>
    part
      .split('\n')
      .filter((line) => /^\| /.test(line))
      .slice(1),
  )
  t.ok(ofTables.length > 40, `${ofTables.length} rows`)
  for (const row of ofTables) t.ok(rows.includes(row), row.slice(0, 60))
})

t.test('each test that is named exists', async (t) => {
  for (const row of rows) {
    const cell = row.split(' | ').at(-1)?.replace(/ \|$/, '') ?? ''
    for (const named of cell.split(' · ')) {
      const [, file = '', name = ''] = /^`(test\/[\w/.-]+\.ts)`: (.+)$/.exec(named) ?? []
      t.not(name, '', `${named} is a file and a test of it`)
      const source = file && (await readFile(file, 'utf8').catch(() => ''))
      t.ok(source.includes(name), `${file}: ${name}`)
    }
  }
})

t.test('no requirement is claimed twice', async (t) => {
  const numbers = rows.flatMap((row) => /^\| (\d+\.\d+\.\d+) /.exec(row)?.[1] ?? [])
  t.strictSame(numbers, [...new Set(numbers)])
})
