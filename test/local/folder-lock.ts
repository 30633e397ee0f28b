import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { lockFolder } from '../../local/folder-lock.ts'

const folder = await mkdtemp(join(tmpdir(), 'keepsake-lock-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))

/** Another process that takes the lock and keeps it until it dies; resolves with what it says. */
async function another() {
  const module = new URL('../../local/folder-lock.ts', import.meta.url).href
  const code = `import { lockFolder } from ${JSON.stringify(module)}
    try { lockFolder(${JSON.stringify(folder)}); console.log('locked'); setInterval(() => {}, 1000) }
    catch (error) { console.log(error.message) }`
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  const [said] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string]
  return { child, said: said.trim() }
}

t.test('a folder has one user at a time, who is named', async (t) => {
  const lock = lockFolder(folder)
  const other = await another()
  t.match(other.said, new RegExp(`in use by process ${process.pid}`))
  t.throws(() => lockFolder(folder), /in use by process/, 'the same process counts as another')
  lock.release()
  lockFolder(folder).release()
})

t.test('the lock of a killed process is free at once', async (t) => {
  const { child, said } = await another()
  t.equal(said, 'locked')
  t.throws(() => lockFolder(folder), new RegExp(`process ${child.pid}`))
  child.kill('SIGKILL')
  await once(child, 'exit')
  lockFolder(folder).release()
})

t.test('a folder that cannot be locked for another reason is said to be so', async (t) => {
  const other = t.testdir({ lock: 'what a full or broken disk has left', 'lock.pid': '1' })
  t.throws(() => lockFolder(other), new Error(`${other} cannot be locked: file is not a database`))
  await writeFile(join(other, 'lock'), '')
  await rm(join(other, 'lock.pid'))
  await symlink('/dev/full', join(other, 'lock.pid'))
  t.throws(() => lockFolder(other), { message: /cannot be locked: ENOSPC/ })
  await rm(join(other, 'lock.pid'))
  lockFolder(other).release()
})

t.test('of many that come at once one gets the folder', async (t) => {
  const all = await Promise.all([another(), another(), another(), another()])
  t.equal(all.filter((a) => a.said === 'locked').length, 1)
  for (const { child } of all) child.kill('SIGKILL')
})
