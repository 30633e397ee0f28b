import { once } from 'node:events'
import { connect } from 'node:net'
import { formatId, newUuid } from '../../lib/contract/ids.ts'
import type { TestDatabase } from './database.ts'
import type { TestIdentity } from './identity.ts'

interface World {
  database: Pick<TestDatabase, 'admin'>
  identity: TestIdentity
}

const HEAD = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.jpg"\r\n\r\n'
const TAIL = 'no\r\n--x--\r\n'

/**
 * A file of a member whose last bytes arrive only when they are asked to: an API waits half a minute for them. Resolves when
 * the first ones are sent. `finish` sends the rest, and resolves with the answer once the API has closed the connection. The
 * answer is 415: what was sent is no picture.
 */
export async function slowUpload({ database, identity }: World, port: number) {
  const [orgId, userId] = [newUuid(), newUuid()]
  const sql = (text: string, values: unknown[]) => database.admin.query(text, values)
  await sql('insert into organizations (id, name) values ($1, $2)', [orgId, 'Slow'])
  await sql('insert into users (id, issuer, subject) values ($1, $2, $3)', [userId, identity.issuer, userId])
  await sql(`insert into memberships (org_id, user_id, role) values ($1, $2, 'owner')`, [orgId, userId])
  const token = await identity.token({ sub: userId, roles: ['ROLE_USER'] })
  const socket = connect(port, '127.0.0.1')
  let answer = ''
  socket.on('data', (chunk: Buffer) => {
    answer += chunk.toString()
  })
  const closed = once(socket, 'close')
  // Its rejection is seen by those who wait for it.
  closed.catch(() => {})
  const head = [
    `POST /v1/api/media/${formatId('organization', orgId)}/single HTTP/1.1`,
    'Host: x',
    `Authorization: Bearer ${token}`,
    'Content-Type: multipart/form-data; boundary=x',
    `Content-Length: ${HEAD.length + TAIL.length}`,
  ]
  await new Promise<void>((resolve) => void socket.write(`${head.join('\r\n')}\r\n\r\n${HEAD}`, () => resolve()))
  return {
    async finish(): Promise<string> {
      socket.write(TAIL)
      await closed
      return answer
    },
  }
}
