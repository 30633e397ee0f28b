import { closeSync, openSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
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
  t.match(
    said().map(({ args }) => args),
    [[/^Lines are missing in .*keepsake\.log: ENOSPC/]],
  )
})
