import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { newUuid } from '../../lib/contract/ids.ts'
import { testDatabase } from '../support/database.ts'
import { median } from './world.ts'

/**
 * An export of own data beside yazl alone, on the same files of 3 MiB: 1 GiB in rounds that alternate, and 5 GiB, for
 * which memory must not grow. Each in a process of its own. `BENCH_ROUNDS` (5) changes how many rounds.
 */
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5)
const MIB = 1024 ** 2
const FILE = 3 * MIB
const TARGET = 1.3
const GROWTH_MIB = 16
const run = promisify(execFile)

interface Measured {
  seconds: number
  cpu: number
  peak: number
  /** Of memory, with all code loaded. */
  atRest: number
}

const teardowns: (() => unknown)[] = []
try {
  const { admin, url } = await testDatabase({ teardown: (done: () => unknown) => void teardowns.push(done) })
  const org = newUuid()
  await admin.query(`insert into organizations (id, name) values ($1, 'O')`, [org])

  async function personWith(files: number): Promise<string> {
    const user = newUuid()
    await admin.query(`insert into users (id, issuer, subject) values ($1, 'i', $2)`, [user, user])
    await admin.query(
      `insert into media (id, org_id, uploader_id, original_filename, mime_type, kind, file_size_bytes, upload_status)
       select gen_random_uuid(), $1, $2, n || '.jpg', 'image/jpeg', 'image', $3, 'completed' from generate_series(1, $4) n`,
      [org, user, FILE, files],
    )
    return user
  }
  async function child(mode: 'exporter' | 'bare', files: number, user?: string): Promise<Measured> {
    if (user) {
      await admin.query(`insert into data_exports (id, user_id, state) values ($1, $2, 'planning')`, [newUuid(), user])
    }
    const args = [join(import.meta.dirname, 'export-child.ts'), mode, String(files), String(FILE), url]
    return JSON.parse((await run(process.execPath, args)).stdout) as Measured
  }

  const [small, large] = [342, 1707]
  const [user, other] = [await personWith(small), await personWith(large)]
  const rounds: { exporter: Measured; bare: Measured }[] = []
  for (let n = 0; n < ROUNDS; n++) {
    rounds.push({ exporter: await child('exporter', small, user), bare: await child('bare', small) })
  }
  const five = await child('exporter', large, other)
  const of = (side: 'exporter' | 'bare', what: keyof Measured) => median(rounds.map((round) => round[side][what]))
  const cells = (name: string, files: number, m: Measured) =>
    `| ${name} | ${((files * 3) / m.seconds).toFixed(0)} | ${m.seconds.toFixed(1)} | ${m.cpu.toFixed(1)} | ${(m.atRest / MIB).toFixed(0)} | ${(m.peak / MIB).toFixed(0)} |`
  const mediansOf = (side: 'exporter' | 'bare') => ({
    seconds: of(side, 'seconds'),
    cpu: of(side, 'cpu'),
    peak: of(side, 'peak'),
    atRest: of(side, 'atRest'),
  })
  const ratio = of('exporter', 'cpu') / of('bare', 'cpu')
  const growth = (five.peak - of('exporter', 'peak')) / MIB
  console.log(
    [
      '| | MiB/s | wall s | CPU s | MiB before | peak MiB |',
      '|---|---|---|---|---|---|',
      cells('export of 1 GiB', small, mediansOf('exporter')),
      cells('yazl alone, 1 GiB', small, mediansOf('bare')),
      cells('export of 5 GiB', large, five),
      '',
      `CPU ${ratio.toFixed(2)} times that of yazl alone (≤ ${TARGET}: ${ratio <= TARGET ? 'met' : 'MISSED'}); 5 GiB need ${growth.toFixed(0)} MiB more than 1 GiB (≤ ${GROWTH_MIB}: ${growth <= GROWTH_MIB ? 'met' : 'MISSED'})`,
    ].join('\n'),
  )
} finally {
  for (const done of teardowns.reverse()) await done()
}
