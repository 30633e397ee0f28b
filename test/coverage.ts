import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * `npm run coverage [FILE…]`: what the tests execute, folder by folder; nothing is gated by it. V8 counts in every
 * process that the tests start, but a process that is killed with -9 writes nothing, so code that is only ever reached
 * before a crash shows less than it should. coverage/index.html shows the lines.
 */
const ROOT = fileURLToPath(new URL('..', import.meta.url))
const raw = join(ROOT, 'coverage/raw')
const PRODUCT = ['api', 'crds', 'jobs', 'lib', 'local', 'operator']

async function run(args: string[], env: Record<string, string> = {}): Promise<number> {
  const child = spawn(process.execPath, args, { cwd: ROOT, stdio: 'inherit', env: { ...process.env, ...env } })
  const [code] = (await once(child, 'close')) as [number | null]
  return code ?? 1
}

await rm(join(ROOT, 'coverage'), { recursive: true, force: true })
await mkdir(raw, { recursive: true })
const status = await run(['test/run.ts', ...process.argv.slice(2)], { NODE_V8_COVERAGE: raw })

const include = PRODUCT.map((folder) => `--include=${folder}/**/*.ts`)
const report = ['report', '--all', '--merge-async', '--temp-directory', raw, ...include]
await run([fileURLToPath(import.meta.resolve('c8/bin/c8.js')), ...report, '--reporter=json-summary', '--reporter=html'])
await rm(raw, { recursive: true, force: true })

interface Count {
  total: number
  covered: number
}
type Summary = Record<'lines' | 'branches' | 'functions', Count>
const KINDS = ['lines', 'branches', 'functions'] as const

const files = JSON.parse(await readFile(join(ROOT, 'coverage/coverage-summary.json'), 'utf8')) as Record<
  string,
  Summary
>
const folderOf = (file: string) => file.split('/').slice(0, -1).slice(0, 2).join('/')
const byFolder = Map.groupBy(
  Object.entries(files).filter(([file]) => file !== 'total'),
  ([file]) => folderOf(relative(ROOT, file)),
)
const percent = (of: Summary[], kind: (typeof KINDS)[number]) => {
  const sum = (name: keyof Count) => of.reduce((all, summary) => all + summary[kind][name], 0)
  return sum('total') === 0 ? '-' : ((100 * sum('covered')) / sum('total')).toFixed(1)
}
const row = (name: string, of: Summary[]) =>
  `${name.padEnd(28)}${KINDS.map((kind) => percent(of, kind).padStart(11)).join('')}`

console.log(`\n${'% covered'.padEnd(28)}${KINDS.map((kind) => kind.padStart(11)).join('')}`)
for (const [folder, of] of [...byFolder].sort(([a], [b]) => (a < b ? -1 : 1))) {
  console.log(
    row(
      folder,
      of.map(([, summary]) => summary),
    ),
  )
}
console.log(
  row(
    'all',
    Object.entries(files).flatMap(([file, summary]) => (file === 'total' ? [] : [summary])),
  ),
)
process.exitCode = status
