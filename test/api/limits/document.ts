import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import t from 'tap'
import { ApiConfig } from '../../../api/config.ts'
import { BODY_LIMITS } from '../../../api/http/body-rate.ts'
import * as capacity from '../../../api/limits/capacity.ts'
import { LIMIT_CLASSES } from '../../../api/limits/classes.ts'

/** docs/limits.md names numbers with the constants they come from, and a test in each row. */
const text = await readFile('docs/limits.md', 'utf8')

const classes = Object.entries(LIMIT_CLASSES).flatMap(([name, { limits, atOnce }]) => [
  [`${name}.atOnce`, atOnce],
  [`${name}.quota`, Object.values(limits)[0]?.quota],
])
const settings = ['MAX_BODIES', 'DATABASE_CONNECTIONS', 'MAX_OPEN_UPLOADS', 'MAX_EVENT_STREAMS'] as const
const defaults = settings.map((name) => [name, ApiConfig.shape[name].parse(undefined)])
const KNOWN: Record<string, unknown> = {
  ...capacity,
  ...BODY_LIMITS,
  ...Object.fromEntries([...classes, ...defaults]),
}

t.test('each number is that of the code', async (t) => {
  const named = [...text.matchAll(/([\d,]+) \(`([\w.-]+)`\)/g)]
  for (const [, number = '', name = ''] of named) {
    t.equal(Number(number.replaceAll(',', '')), KNOWN[name], name)
  }
  t.ok(named.length > 15, `${named.length} numbers`)
})

t.test('each number of capacity.ts is there', async (t) => {
  const numbers = Object.entries(capacity).filter(([, value]) => Number.isInteger(value))
  t.ok(numbers.length >= 6)
  for (const [name] of numbers) t.match(text, `\`${name}\``, name)
})

t.test('each row names a test, and each test exists', async (t) => {
  const rows = text.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| resource'))
  for (const row of rows) t.match(row, /`test\/[\w/.-]+\.ts`/, row.slice(0, 40))
  const tests = [...text.matchAll(/`(test\/[\w/.-]+\.ts)`/g)].map(([, path = '']) => path)
  t.ok(tests.length > 15)
  for (const path of new Set(tests)) t.ok(existsSync(path), path)
})
