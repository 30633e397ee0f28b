export interface Counts {
  passed: number
  failed: number
  skipped: number
}

/** The line that CI reads; the last of a run. */
export const summary = ({ passed, failed, skipped }: Counts) => `${passed} passed, ${failed} failed, ${skipped} skipped`

/** How the process of a test file ended. */
export interface Ended {
  code: number | null
  signal: NodeJS.Signals | null
  /** What it wrote on standard error. */
  errors: string
}

export interface FileResult extends Counts {
  /** The lines of the output that a reader wants: failures with their diagnostics, and what was skipped. */
  shown: string[]
  /** One line for each failure: to be found, and understood, where a log was cut. */
  failures: string[]
  /** Why tests of the file, or all of them, did not run. */
  reasons: string[]
}

interface Failure {
  name: string
  /** The lines that tap wrote below it. */
  about: string[]
}

/**
 * Reads the TAP (https://testanything.org/tap-version-14-specification.html) of one test file. A line that closes a
 * subtest repeats the verdict of the lines inside it, so only leaves are counted. A file that ended badly, or without
 * the plan that closes its output, has failed even when every line of it says `ok`.
 */
export function readTap(output: string, ended: Ended): FileResult {
  const { tests, plan } = parse(output)
  const leaves = tests.filter(({ isLeaf, skipped }) => isLeaf || skipped)
  const failed = leaves.filter((test) => test.failed)
  const skipsAll = tests.length === 0 && plan?.tests === 0 && plan.comment !== ''
  const skipped = leaves.filter((test) => test.skipped).length
  const result: FileResult = {
    passed: leaves.length - failed.length - skipped,
    failed: failed.length,
    skipped: skipped + (skipsAll ? 1 : 0),
    shown: tests.flatMap((test) => (test.failed || test.skipped ? [test.line, ...test.about] : [])),
    failures: failed.map(inOneLine),
    reasons: leaves.flatMap(({ skipped, why }) => (skipped ? [why] : [])),
  }
  if (skipsAll) {
    result.shown.push(`# SKIP ${plan.comment}`)
    result.reasons.push(plan.comment)
  }
  const topLevel = tests.filter((test) => test.isTopLevel).length
  const wrong = failed.length === 0 ? whatIsWrong(ended, plan?.tests, topLevel) : undefined
  if (wrong) {
    result.failed += 1
    result.failures.push(inOneLine({ name: wrong, about: [lastErrorOf(ended.errors)] }))
    result.shown.push(`not ok - ${wrong}`)
  }
  return result
}

interface TestLine extends Failure {
  line: string
  isTopLevel: boolean
  isLeaf: boolean
  skipped: boolean
  /** What the line says about the skip. */
  why: string
  failed: boolean
}

function parse(output: string) {
  const tests: TestLine[] = []
  let plan: { tests: number; comment: string } | undefined
  for (const line of output.split('\n')) {
    const planned = /^1\.\.(\d+)(?: # ?(.*))?$/.exec(line)
    if (planned) plan = { tests: Number(planned[1]), comment: planned[2] ?? '' }
    const test = testLine(line)
    if (test) tests.push(test)
    else if (tests.at(-1)?.failed) tests.at(-1)?.about.push(line)
  }
  return { tests, plan }
}

function testLine(line: string): TestLine | undefined {
  const [match, indent, not, name = ''] = /^( *)(not )?ok \d+(?: - (.*))?$/.exec(line) ?? []
  if (match === undefined) return undefined
  const [directive, why = ''] = /# (?:skip|todo)\b *(.*)$/i.exec(name) ?? []
  const skipped = directive !== undefined
  return {
    name,
    line: line.trim(),
    about: [],
    isTopLevel: indent === '',
    isLeaf: !/# time=/.test(name),
    skipped,
    why: why || 'no reason was given',
    failed: not !== undefined && !skipped,
  }
}

/** Why a file without a failed line has failed all the same. */
function whatIsWrong({ code, signal }: Ended, plan: number | undefined, topLevel: number): string | undefined {
  if (signal) return `ended by ${signal} without a failed test`
  if (code !== 0) return `ended with status ${code} without a failed test`
  if (plan === undefined) return 'ended before its tests did'
  if (plan !== topLevel) return `ran ${topLevel} of ${plan} tests`
  return undefined
}

const lastErrorOf = (errors: string) => errors.split('\n').findLast((line) => /^\w*Error\b/.test(line)) ?? ''

/** Without the source that tap quotes. */
function inOneLine({ name, about }: Failure): string {
  const lines = about.map((text) => text.trim())
  const end = lines.findIndex((line) => line === 'source: |' || line === 'source: >')
  const said = lines.slice(0, end < 0 ? undefined : end).filter((line) => !/^(---|\.\.\.|)$/.test(line))
  return `${name}: ${said.join(' ').slice(0, 800)}`
}
