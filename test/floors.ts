import { glob, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'

/**
 * The import rules check circles of single folders, and a folder inside a feature counts there by itself: a circle
 * through one that imports nothing of its own feature goes unseen. Here a feature is one with all its folders.
 */
t.test('features and the folders of the platform import each other only downward', async (t) => {
  const imports = await importsOfUnits()
  t.ok(imports.size > 15, 'units to look at')
  t.strictSame(circleIn(imports), undefined)
})

t.test('a circle is found, also a longer one', async (t) => {
  const imports = new Map([
    ['a', new Set(['b'])],
    ['b', new Set(['c'])],
    ['c', new Set(['d', 'b'])],
  ])
  t.strictSame(circleIn(imports), ['b', 'c', 'b'])
})

/** A feature, or a folder of the platform; undefined for what is at the top: the programs, and what they are made of. */
const unitOf = (file: string): string | undefined => /^api\/(features\/[^/]+|[^/]+)\//.exec(file)?.[1]

const IMPORT = /(?:from|import) ?\(?'(\.[^']+)'/g
const PROGRAM = /\/(main|program)\.ts$/

async function importsOfUnits(): Promise<Map<string, Set<string>>> {
  const imports = new Map<string, Set<string>>()
  for await (const file of glob('api/*/**/*.ts')) {
    const unit = unitOf(file)
    if (unit === undefined || PROGRAM.test(file)) continue
    const known = imports.get(unit) ?? new Set()
    imports.set(unit, known)
    for (const [, path = ''] of (await readFile(file, 'utf8')).matchAll(IMPORT)) {
      const imported = unitOf(join(dirname(file), path))
      if (imported !== undefined && imported !== unit) known.add(imported)
    }
  }
  return imports
}

function circleIn(imports: ReadonlyMap<string, ReadonlySet<string>>): string[] | undefined {
  const done = new Set<string>()
  const below = (unit: string, above: readonly string[]): string[] | undefined => {
    if (above.includes(unit)) return [...above.slice(above.indexOf(unit)), unit]
    if (done.has(unit)) return undefined
    for (const next of imports.get(unit) ?? []) {
      const circle = below(next, [...above, unit])
      if (circle) return circle
    }
    done.add(unit)
    return undefined
  }
  for (const unit of imports.keys()) {
    const circle = below(unit, [])
    if (circle) return circle
  }
  return undefined
}
