import { glob, readdir, readFile } from 'node:fs/promises'
import t from 'tap'

/** Everything in the repository, so that a new folder is read, but what others wrote and the tests. */
const LEFT_OUT = new Set(['node_modules', 'dist', 'shared', 'test'])
const entries = await readdir('.', { withFileTypes: true })
const folders = entries.filter((one) => one.isDirectory() && !one.name.startsWith('.') && !LEFT_OUT.has(one.name))
/** Product folders and files whose comments and messages name their actors: the operator, a caller, a replica. */
const PLACES = [...folders.map(({ name }) => name), 'README.md']
const TEXT = '*.{ts,js,css,html,md,yaml,yml,json,tpl,txt,sql}'

const UNWANTED = /\b(somebody|nobody|whoever|everybody|anybody|mended|forerunner|no news)\b/i

for (const place of PLACES) {
  t.test(`${place} names its actors and uses the field's terms`, async (t) => {
    const found: string[] = []
    let files = 0
    for await (const file of glob(place.includes('.') ? place : `${place}/**/${TEXT}`)) {
      // Applied migrations never change.
      if (file.startsWith('api/db/migrations/')) continue
      files += 1
      found.push(...(await unwantedLines(file)))
    }
    t.not(files, 0, 'files to read')
    t.strictSame(found, [])
  })
}

async function unwantedLines(file: string): Promise<string[]> {
  const lines = (await readFile(file, 'utf8')).split('\n')
  return lines.flatMap((line, i) => (UNWANTED.test(line) ? [`${file}:${i + 1}: ${line.trim()}`] : []))
}
