import { spawnSync } from 'node:child_process'
import { openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import pg from 'pg'
import t from 'tap'
import { DrizzleQueryError } from '../../../api/db/orm.ts'
import { openLog } from '../../../lib/runtime/log.ts'
import { type LoggedError, loggable, safeMessage } from '../../../lib/runtime/log-error.ts'

const PERSON = 'Ann "Annie" Lee\n    at ann@example.org'

/** As pg makes it of the server's answer. */
function databaseError(code: string, message: string, more: Partial<pg.DatabaseError> = {}): pg.DatabaseError {
  return Object.assign(new pg.DatabaseError(message, 1, 'error'), { severity: 'ERROR', code, ...more })
}

const logged = (error: unknown) => loggable(error) as LoggedError

t.test('of a failed query the statement is logged, and not what it was asked with', async (t) => {
  const cause = databaseError('23505', 'duplicate key value violates unique constraint "users_email"', {
    detail: `Key (email)=(${PERSON}) already exists.`,
    where: `COPY users, line 1: "${PERSON}"`,
    schema: 'public',
    table: 'users',
    column: 'email',
    constraint: 'users_email',
  })
  const shown = logged(new DrizzleQueryError('insert into "users" values ($1)', [PERSON], cause))
  t.match(shown, {
    type: 'DrizzleQueryError',
    message: 'Failed query: insert into "users" values ($1)',
    stack: /^DrizzleQueryError: Failed query: insert into "users" values \(\$1\)\n {4}at .*log\.ts/,
    cause: {
      type: 'DatabaseError',
      message: 'duplicate key value violates unique constraint "users_email"',
      severity: 'ERROR',
      code: '23505',
      table: 'users',
      column: 'email',
      constraint: 'users_email',
    },
  })
  t.notMatch(JSON.stringify(shown), /Ann|ann@/)
})

const QUOTING: [name: string, error: Error, kept: RegExp][] = [
  [
    '22P02',
    databaseError('22P02', `invalid input syntax for type uuid: "${PERSON}"`),
    /^invalid input syntax for type uuid: /,
  ],
  [
    '22003',
    databaseError('22003', `value "${PERSON}" is out of range for type integer`),
    /out of range for type integer$/,
  ],
  ['JSON.parse', new SyntaxError(`Unexpected token 'A', "${PERSON}" is not valid JSON`), /is not valid JSON$/],
]
for (const [name, error, kept] of QUOTING) {
  t.test(`a message that quotes a value is logged without it: ${name}`, async (t) => {
    t.match(logged(error).message, kept)
    t.notMatch(JSON.stringify(logged(error)), /Ann|Lee|ann@/)
    t.match(safeMessage(error), kept)
    t.notMatch(safeMessage(error), /Ann|Lee|ann@/)
  })
}

t.test('an error keeps its stack, its causes, and the codes that libraries attach', async (t) => {
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED', port: 5432 })
  const error = new Error('no database', { cause: new AggregateError([refused], 'all addresses') })
  const shown = logged(error)
  t.match(shown, {
    type: 'Error',
    message: 'no database',
    stack: /^Error: no database\n {4}at /,
    cause: { type: 'AggregateError', errors: [{ message: 'connect ECONNREFUSED', code: 'ECONNREFUSED', port: 5432 }] },
  })
  t.equal(safeMessage(error), 'no database: all addresses')
})

t.test('requests and answers that libraries attach are left out, and so is what is no error', async (t) => {
  const error = Object.assign(new Error('x'), {
    request: { headers: PERSON },
    body: PERSON,
    list: [PERSON],
    status: 500,
  })
  const shown = logged(error)
  t.match(shown, { status: 500 })
  t.notMatch(JSON.stringify(shown), /Ann/)
  t.strictSame(loggable({ name: PERSON }), { type: 'object' })
  t.equal(loggable('a text'), 'a text')
  t.equal(loggable(undefined), undefined)
  t.equal(safeMessage(null), 'an object was thrown')
})

t.test('causes that go round end, and messages have bounds', async (t) => {
  const error = new Error('x'.repeat(100_000))
  error.cause = error
  t.ok(JSON.stringify(loggable(error)).length < 80_000)
  t.ok(safeMessage(error).length < 20_000)
})

t.test('a message that changed after it was thrown does not bring the first one back with the stack', async (t) => {
  const error = new Error(PERSON)
  error.message = 'a file name'
  t.match(logged(error).stack, /^Error: a file name\n {4}at /)
})

t.test('a line without a text takes the cleaned one of its error', async (t) => {
  const lines: string[] = []
  const to = new PassThrough()
  to.on('data', (chunk: Buffer) => lines.push(chunk.toString()))
  const log = openLog({ program: 'test', to })
  const error = new DrizzleQueryError('select $1', [PERSON], new Error('lost'))
  log.error(error)
  log.error({ err: error, id: 7 })
  log.child({ a: 1 }).error({ err: error }, 'in words')
  t.notMatch(lines.join(''), /Ann|ann@/)
  t.match(
    lines.map((line) => JSON.parse(line)),
    [
      { msg: 'Failed query: select $1: lost', err: { type: 'DrizzleQueryError' } },
      { msg: 'Failed query: select $1: lost', id: 7 },
      { msg: 'in words', a: 1, err: { cause: { message: 'lost' } } },
    ],
  )
})

t.test('a program that crashes says why in its log, and prints nothing past it', async (t) => {
  const root = join(import.meta.dirname, '../../..')
  const program = (crash: string) => `
    import { DrizzleQueryError } from '${root}/api/db/orm.ts'
    import { lifecycle } from '${root}/lib/runtime/lifecycle.ts'
    import { openLog } from '${root}/lib/runtime/log.ts'
    lifecycle(openLog({ program: 'crashing' }), { deadlineMs: 1000, exit: true })
    const error = new DrizzleQueryError('select $1', ['ann@example.org'], new Error('lost'))
    setTimeout(() => {}, 60_000)
    ${crash}`
  for (const crash of ['setTimeout(() => { throw error })', 'void Promise.reject(error)', 'throw error']) {
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', program(crash)], {
      cwd: root,
      encoding: 'utf8',
    })
    t.strictSame([status, stderr], [1, ''], crash)
    t.match(JSON.parse(stdout), { level: 'fatal', msg: 'crashed', err: { message: 'Failed query: select $1' } }, crash)
    t.notMatch(stdout, /ann@/)
  }
})

t.test('the lines of one turn leave together, in order; a warning leaves at once', async (t) => {
  const file = join(t.testdir(), 'log')
  const written = () =>
    readFileSync(file, 'utf8')
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line).msg)
  const log = openLog({ program: 'test', fd: openSync(file, 'w') })
  log.info('one')
  log.child({ request_id: 1 }).info('two')
  t.strictSame(written(), [])
  log.warn('three')
  t.strictSame(written(), ['one', 'two', 'three'])
  log.info('four')
  await turn()
  t.strictSame(written(), ['one', 'two', 'three', 'four'])
})

t.test('text with line breaks stays in its line', async (t) => {
  const file = join(t.testdir(), 'log')
  const log = openLog({ program: 'test', fd: openSync(file, 'w') })
  const forged = 'a.jpg\n{"level":"info","msg":"forged"}\r\nb\u2028c\u001b[2J'
  log.warn({ name: forged }, forged)
  const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean)
  t.equal(lines.length, 1)
  t.match(JSON.parse(lines[0] ?? ''), { name: forged, msg: forged })
  t.notMatch(lines[0], '\u001b', 'and nothing that a terminal obeys')
})

t.test('a program that exits has written all its lines', async (t) => {
  const program = `
    import { openLog } from '${join(import.meta.dirname, '../../../lib/runtime/log.ts')}'
    const log = openLog({ program: 'ending' })
    log.info('one')
    log.child({}).info('two')
    process.exit(3)`
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
  t.equal(status, 3)
  t.strictSame(
    stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).msg),
    ['one', 'two'],
  )
})

t.test('where processes share a pipe, no write is longer than what the kernel keeps whole', async (t) => {
  const writes: string[] = []
  const log = openLog({ program: 'test', isShared: true, toInTurns: { write: (text) => void writes.push(text) } })
  for (let n = 0; n < 200; n++) log.info({ n, name: 'Zoë'.repeat(n % 50) }, 'line')
  await turn()
  t.ok(writes.length > 1)
  for (const text of writes) t.ok(Buffer.byteLength(text) <= 4096 && text.endsWith('\n'))
  const lines = writes.join('').trimEnd().split('\n')
  t.strictSame(
    lines.map((line) => JSON.parse(line).n),
    Array.from({ length: 200 }, (_, n) => n),
  )
  t.ok(writes.length < 50, 'and yet many lines leave together')
})
