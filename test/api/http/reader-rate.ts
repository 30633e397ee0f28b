import type { ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { openServer } from '../../../api/http/open-server.ts'
import { judgeReader, type Reading, type Seen } from '../../../api/http/reader-rate.ts'
import { eventually } from '../../support/eventually.ts'
import { readableLog } from '../../support/readable-log.ts'

const limits = { bytesPerSecond: 1000, windowMs: 1000 }

/** What comes of these samples, each the bytes taken so far and those that wait. */
function judged(samples: [taken: number, waiting: number][]): 'slow' | 'kept' {
  let reading: Reading | undefined
  for (const [taken, waiting] of samples) {
    const next = judgeReader(reading, { taken, waiting } satisfies Seen, limits)
    if (next === 'slow') return 'slow'
    reading = next
  }
  return 'kept'
}
const windows = (n: number, sample: (i: number) => [number, number]) =>
  Array.from({ length: n * 10 + 1 }, (_, i) => sample(i))

const CASES: [name: string, samples: [number, number][], 'slow' | 'kept'][] = [
  ['takes nothing', windows(1, () => [0, 5000]), 'slow'],
  ['takes a byte at each sample', windows(1, (i) => [i, 5000]), 'slow'],
  ['takes just enough', windows(5, (i) => [i * 100, 5000]), 'kept'],
  ['takes a little too little', windows(1, (i) => [i * 99, 5000]), 'slow'],
  ['takes all of it in bursts', windows(5, (i) => [Math.floor(i / 10) * 1000, 5000]), 'kept'],
  ['is fast for one window and then stops', windows(2, (i) => [Math.min(i, 10) * 500, 5000]), 'slow'],
  ['has nothing to take', windows(9, () => [100, 0]), 'kept'],
  ['waits for us now and then', windows(9, (i) => [0, i % 10 === 9 ? 0 : 5000]), 'kept'],
  [
    'pauses for less than a window',
    [...windows(1, (i) => [i * 200, 10]), ...windows(0.8, () => [2000, 10]), [9000, 10]],
    'kept',
  ],
]
for (const [name, samples, expected] of CASES) {
  t.test(`a client that ${name} is ${expected}`, async (t) => {
    t.equal(judged(samples), expected)
  })
}

const answers: ServerResponse[] = []
/** Much more than the buffers of two kernels. */
const BYTES = 200 * 1024 * 1024
const { log, logged } = readableLog()
const server = openServer(
  (req, res) => {
    answers.push(res)
    if (req.url === '/endless') Readable.from(endless(), { objectMode: false }).pipe(res)
    else void dribble(res)
  },
  { log, readers: { bytesPerSecond: 100_000, windowMs: 300 } },
)
await server.listen('127.0.0.1', 0)
t.teardown(() => server.close(0))
const port = Number(new URL(server.url()).port)

function* endless(): Generator<Buffer> {
  const piece = Buffer.alloc(64 * 1024)
  for (let sent = 0; sent < BYTES; sent += piece.length) yield piece
}
async function dribble(res: ServerResponse): Promise<void> {
  for (let i = 0; i < 40; i++) {
    res.write('a')
    await sleep(30)
  }
  res.end('end')
}
const ask = (socket: Socket, path: string) =>
  socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
const cuts = () => logged.filter((line) => line['msg'] === 'the client reads the response too slowly').length

t.test('a client that reads one byte after another is cut off', async (t) => {
  const socket = connect({
    port,
    host: '127.0.0.1',
    // Stops after each byte, so that the kernel's buffers fill up.
    onread: { buffer: Buffer.alloc(1), callback: () => false },
  }).on('error', () => {})
  ask(socket, '/endless')
  const timer = setInterval(() => socket.resume(), 20)
  await eventually('the server to give up', () => answers[0]?.destroyed)
  clearInterval(timer)
  socket.destroy()
  t.equal(cuts(), 1)
})

t.test('one that reads all there is, and one that waits for us, are not', async (t) => {
  const read = async (path: string) => {
    const socket = connect(port, '127.0.0.1')
    ask(socket, path)
    let bytes = 0
    for await (const chunk of socket) bytes += (chunk as Buffer).length
    return bytes
  }
  const before = cuts()
  const [slow, fast] = await Promise.all([read('/dribble'), read('/endless')])
  t.ok(slow > 40, 'the end of the answer that took over a second')
  t.ok(fast > BYTES)
  t.equal(cuts(), before)
})
