import { chmod, stat, writeFile } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import t from 'tap'
import { makeContentsPrivate } from '../../local/private-folder.ts'
import { readableByOthers } from '../support/rights.ts'

t.test("takes permissions from others in what is the platform's, and leaves the rest", async (t) => {
  const folder = t.testdir({ objects: { org: { x: '' } }, mail: {}, mine: '' })
  await chmod(join(folder, 'objects/org/x'), 0o644)
  await chmod(join(folder, 'objects/org'), 0o600)
  await chmod(join(folder, 'mine'), 0o644)
  await makeContentsPrivate(folder)
  t.strictSame(await readableByOthers(join(folder, 'objects')), [])
  t.equal((await stat(join(folder, 'objects/org'))).mode & 0o777, 0o700)
  t.equal((await stat(join(folder, 'mine'))).mode & 0o777, 0o644)
})

t.test('changes what it can of a folder with very many paths that it may not change', async (t) => {
  const folder = t.testdir({ objects: { x: '' }, bin: {} })
  await chmod(join(folder, 'objects/x'), 0o644)
  // Says so of more paths than a program reads by default, before it goes on with those that it may change.
  const program = `#!/bin/sh
head -c 3000000 /dev/zero | tr '\\0' x >&2 || exit 2
PATH=\${PATH#*:} chmod "$@" && exit 1
`
  await writeFile(join(folder, 'bin/chmod'), program, { mode: 0o755 })
  const before = process.env['PATH']
  t.teardown(() => {
    process.env['PATH'] = before
  })
  process.env['PATH'] = [join(folder, 'bin'), before].join(delimiter)
  await t.rejects(makeContentsPrivate(folder), { message: 'chmod ended with 1' })
  t.strictSame(await readableByOthers(join(folder, 'objects')), [])
})
