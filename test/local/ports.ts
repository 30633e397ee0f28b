import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { closeServer, listenOnPort } from '../../local/http-server.ts'
import { choosePorts, freePort } from '../../local/ports.ts'

async function occupy(t: Test, port = 0): Promise<number> {
  const server = createServer()
  t.teardown(() => closeServer(server))
  return listenOnPort(server, port)
}
async function folderFor(t: Test) {
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-ports-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  return folder
}

t.test('no port is given twice, and the next start gets the same ones', async (t) => {
  const folder = await folderFor(t)
  const ports = await choosePorts(folder, { usual: false })
  t.equal(new Set(Object.values(ports)).size, Object.keys(ports).length)
  t.strictSame(await choosePorts(folder, { usual: false }), ports)
})

t.test('a port that somebody took meanwhile is replaced, and the replacement is remembered', async (t) => {
  const folder = await folderFor(t)
  const before = await choosePorts(folder, { usual: false })
  await occupy(t, before.identity)
  const after = await choosePorts(folder, { usual: false })
  t.not(after.identity, before.identity)
  t.equal(after.public, before.public)
  t.equal(JSON.parse(await readFile(join(folder, 'ports.json'), 'utf8')).identity, after.identity)
})

t.test('what is found later, as for the database, is none of the remembered ones, though they are free', async (t) => {
  const folder = await folderFor(t)
  const found = await freePort()
  // As a process remembered them that searched from the same port.
  const following = Object.keys(await choosePorts(await folderFor(t), { usual: false })).map((name, i) => {
    return [name, 20_000 + ((found - 20_000 + 50 + i) % 10_000)] as const
  })
  await writeFile(join(folder, 'ports.json'), JSON.stringify(Object.fromEntries(following)))
  const remembered = Object.values(await choosePorts(folder, { usual: false }))
  for (let i = 0; i < 100; i++) t.notOk(remembered.includes(await freePort()))
})

t.test('a port that was asked for is not silently replaced', async (t) => {
  const folder = await folderFor(t)
  const taken = await occupy(t)
  await t.rejects(choosePorts(folder, { public: taken, usual: false }), {
    message: `Port ${taken} is taken by another program`,
  })
})
