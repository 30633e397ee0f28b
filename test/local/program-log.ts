import { execFileSync } from 'node:child_process'
import { closeSync, openSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { openLogFile } from '../../local/program-log.ts'

t.test('the last line before the end is in the file, and a line after it is in no file', async (t) => {
  const folder = t.testdir()
  const logs = openLogFile(folder, 'info')
  const log = logs.of('worker')
  log.info('stopped')
  logs.close()
  const other = join(folder, 'other')
  // It gets the number of the descriptor that was closed.
  const fd = openSync(other, 'w')
  log.info('too late')
  log.error('too late as well')
  await setImmediate()
  closeSync(fd)
  const lines = readFileSync(logs.path, 'utf8').trim().split('\n')
  t.match(
    lines.map((line) => JSON.parse(line)),
    [{ program: 'worker', msg: 'stopped' }],
  )
  t.equal(lines.length, 1)
  t.equal(readFileSync(other, 'utf8'), '')
})

t.test('a long file is put aside while the platform runs, and replaces the one before it', async (t) => {
  const folder = t.testdir({ 'keepsake.log': 'of an earlier run' })
  const logs = openLogFile(folder, 'info', 10)
  const log = logs.of('worker')
  const linesOf = (name: string) => readFileSync(join(folder, name), 'utf8')
  log.warn('first')
  t.equal(linesOf('keepsake.log.1'), 'of an earlier run')
  log.warn('second')
  t.match(linesOf('keepsake.log.1'), /first/)
  t.match(linesOf('keepsake.log'), /second/)
  rmSync(join(folder, 'keepsake.log'))
  log.warn('third')
  t.match(linesOf('keepsake.log'), /third/, 'also when there is no file to put aside')
  t.strictSame(readdirSync(folder).sort(), ['keepsake.log', 'keepsake.log.1'])
  logs.close()
})

t.test('lines for which the disk has no space are dropped, and standard error says so once', async (t) => {
  const folder = t.testdir()
  symlinkSync('/dev/full', join(folder, 'keepsake.log'))
  const said = t.capture(console, 'error', () => {})
  const logs = openLogFile(folder, 'info')
  const log = logs.of('worker')
  log.warn('written at once')
  log.info('written at the end of the turn')
  await setImmediate()
  logs.close()
  const lines = said()
  t.equal(lines.length, 1)
  t.match(lines[0]?.args, [/^Lines are missing in .*keepsake\.log: ENOSPC/])
})

t.test('a line of which the disk took a part does not spoil the next one', async (t) => {
  const folder = t.testdir()
  const said = t.capture(console, 'error', () => {})
  const logs = openLogFile(folder, 'info')
  const log = logs.of('worker')
  log.warn('first')
  const { size } = statSync(logs.path)
  // The kernel also sends a signal, which would end the process.
  const ignore = () => {}
  process.on('SIGXFSZ', ignore)
  t.teardown(() => process.off('SIGXFSZ', ignore))
  // Like a full disk, the limit has the kernel write what still fits and then refuse the rest.
  limitFiles(size + 10)
  try {
    log.warn('second')
    log.warn('third')
  } finally {
    limitFiles('unlimited')
  }
  log.warn('fourth')
  log.warn('fifth')
  logs.close()
  t.equal(said().length, 1)
  const lines = readFileSync(logs.path, 'utf8').split('\n')
  t.equal(lines[1]?.length, 10)
  t.match(
    [0, 2, 3].map((at) => JSON.parse(lines[at] ?? '')),
    [{ msg: 'first' }, { msg: 'fourth' }, { msg: 'fifth' }],
  )
  t.strictSame(lines.slice(4), [''])
})

/** Of this process, from now on. */
const limitFiles = (bytes: number | 'unlimited') =>
  execFileSync('prlimit', ['--pid', String(process.pid), `--fsize=${bytes}:unlimited`])

t.test('a long file that cannot be put aside gets the lines meanwhile, and is put aside later', async (t) => {
  // The name is that of a folder.
  const folder = t.testdir({ 'keepsake.log.1': { file: '' } })
  const said = t.capture(console, 'error', () => {})
  const logs = openLogFile(folder, 'info', 10)
  const log = logs.of('worker')
  for (const text of ['first', 'second', 'third']) log.warn(text)
  t.match(readFileSync(logs.path, 'utf8'), /first[\s\S]*second[\s\S]*third/)
  const lines = said()
  t.equal(lines.length, 1)
  t.match(lines[0]?.args, [/keepsake\.log grows, as it cannot be put aside: E/])
  rmSync(join(folder, 'keepsake.log.1'), { recursive: true })
  log.warn('fourth')
  t.match(readFileSync(join(folder, 'keepsake.log.1'), 'utf8'), /third/)
  t.match(readFileSync(logs.path, 'utf8'), /^.*fourth.*\n$/)
  logs.close()
})
