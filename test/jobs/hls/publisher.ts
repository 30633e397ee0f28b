import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { formatMediaPlaylist, parseMediaPlaylist } from '../../../jobs/hls/media-playlist.ts'
import { openPublisher, stillListed } from '../../../jobs/hls/publisher.ts'
import { openFolderStore } from '../../../lib/runtime/object-store/folder.ts'

/** What players see of files that encoders write one after another. */

const row = (text: string) =>
  text.split(' ').map((part) => {
    const [uri = '', seconds] = part.split('=')
    return { uri: `${uri}.ts`, seconds: Number(seconds) }
  })
const KNOWN = 'v_00000=2 v_00001=2 v_00002=2 v_00003=1.5'
for (const [what, known, made, want] of [
  ['made again', KNOWN, 'v_00000=2', 3],
  ['made again, of sound', KNOWN, 'v_00000=2.02 v_00001=1.98', 2],
  ['all of it', KNOWN, KNOWN, 0],
  ['more than there was', 'v_00000=2', 'v_00000=2 v_00001=2', 0],
  ['other names', KNOWN, 'vc_00000=2', undefined],
  ['another name behind the first', 'v_00000=2 w_00001=2 v_00002=2', 'v_00000=2 v_00001=2', undefined],
  ['another length', KNOWN, 'v_00000=1.9', undefined],
  ['another length behind the first', KNOWN, 'v_00000=2 v_00001=1.9', undefined],
  ['no length that can be told', 'v_00000=x v_00001=2', 'v_00000=2', undefined],
  ['no length behind', 'v_00000=2 v_00001=x', 'v_00000=2', undefined],
  ['an endless one behind', 'v_00000=2 v_00001=Infinity', 'v_00000=2', undefined],
  ['an empty one behind', 'v_00000=2 v_00001=0', 'v_00000=2', undefined],
  ['a longer one behind than the target', 'v_00000=2 v_00001=2.6', 'v_00000=2', undefined],
  ['one as long as the target, rounded', 'v_00000=2 v_00001=2.4', 'v_00000=2', 1],
  ['another rendition behind', 'v_00000=2 w_00001=2', 'v_00000=2', undefined],
  ['a gap', 'v_00000=2 v_00002=2', 'v_00000=2', undefined],
  ['chunks behind it', 'v_00000=2 vx0a1b2c3d_00001=2 vxffffffff_00002=2', 'v_00000=2', 2],
  [
    'chunks of before, made by one process',
    'v_00000=2 vx0a1b2c3d_00001=2 vx0a1b2c3d_00002=2',
    'v_00000=2 v_00001=2',
    1,
  ],
  ['one process before, made by chunks', KNOWN, 'v_00000=2 vx0a1b2c3d_00001=2', 2],
  ['a chunk of another length', 'v_00000=2 vx0a1b2c3d_00001=1 v_00002=2', 'v_00000=2 v_00001=2', undefined],
  ['a gap of chunks', 'v_00000=2 vx0a1b2c3d_00002=2', 'v_00000=2', undefined],
  ['a chunk of another rendition', 'v_00000=2 wx0a1b2c3d_00001=2', 'v_00000=2', undefined],
  ['no name of a chunk', 'v_00000=2 vx0a1b2c3_00001=2', 'v_00000=2', undefined],
  ['the same one again', 'v_00000=2 v_00000=2', 'v_00000=2', undefined],
] as const)
  t.test(`what stays listed: ${what}`, async (t) => {
    const left = stillListed(row(known), row(made), 2)
    t.strictSame(left, want === undefined ? want : row(known).slice(row(known).length - want))
  })

async function openBench(t: Test) {
  const place = t.testdir({ hls: {}, store: {} })
  const folder = join(place, 'hls')
  const store = openFolderStore({ folder: join(place, 'store') })
  let puts = 0
  const counted: typeof store = { ...store, put: (...given) => store.put(...given).finally(() => (puts += 1)) }
  const { signal } = new AbortController()
  const read = async (name: string) => text((await store.get(`p/${name}`)).body)
  const reopen = () => openPublisher({ store: counted, prefix: 'p/', folder, targetSeconds: 2, signal })
  return {
    publisher: reopen(),
    /** As another attempt does. */
    reopen,
    store,
    /** As an encoder would: so many segments, which hold the letter of that encoder. */
    async write(letter: string, segments: number, ended = false, name = 'v') {
      const uris = Array.from({ length: segments }, (_, k) => `${name}_0000${k}.ts`)
      for (const uri of uris) await writeFile(join(folder, uri), letter)
      const lines = uris.flatMap((uri) => ['#EXTINF:2.000000,', uri])
      await writeFile(join(folder, 'v.m3u8'), ['#EXTM3U', ...lines, ...(ended ? ['#EXT-X-ENDLIST'] : [])].join('\n'))
    },
    async empty() {
      await rm(folder, { recursive: true })
      await mkdir(folder)
    },
    /** What players see: the content of each listed segment. */
    async seen() {
      const playlist = parseMediaPlaylist(await read('v.m3u8'))
      const contents = await Promise.all((playlist?.segments ?? []).map(({ uri }) => read(uri)))
      return contents.join('') + (playlist?.ended ? '.' : '')
    },
    puts: () => puts,
  }
}

t.test('what players know stays listed while an encoder makes it again', async (t) => {
  const bench = await openBench(t)
  const { publisher } = bench
  await bench.write('a', 3)
  await publisher.publishNew(['v'])
  t.equal(await bench.seen(), 'aaa')
  publisher.again()
  await bench.empty()
  t.strictSame(publisher.published('v'), [], 'of the new encoder')
  await publisher.publishNew(['v'])
  t.equal(await bench.seen(), 'aaa', 'before its first segment')
  const puts = bench.puts()
  for (const [segments, want] of [
    [1, 'baa'],
    [3, 'bbb'],
  ] as const) {
    await bench.write('b', segments)
    await publisher.publishNew(['v'])
    t.equal(await bench.seen(), want)
    t.equal(publisher.published('v').length, segments)
  }
  t.equal(bench.puts(), puts, 'a list that says the same is not written again')
  await bench.write('b', 4)
  await publisher.publishNew(['v'])
  t.equal(await bench.seen(), 'bbbb')
  await bench.write('b', 5, true)
  await publisher.publishRest(['v'])
  t.equal(await bench.seen(), 'bbbbb.')
})

t.test('a third encoder replaces what two have made', async (t) => {
  const bench = await openBench(t)
  const { publisher } = bench
  await bench.write('a', 4)
  await publisher.publishNew(['v'])
  for (const letter of ['b', 'c']) {
    publisher.again()
    await bench.empty()
    await bench.write(letter, letter === 'b' ? 2 : 1)
    await publisher.publishNew(['v'])
  }
  t.equal(await bench.seen(), 'cbaa')
  await bench.write('c', 3, true)
  await publisher.publishRest(['v'])
  t.equal(await bench.seen(), 'ccc.', 'in the end it lists what was verified')
})

t.test('what an attempt that died has listed stays listed in the next one', async (t) => {
  const bench = await openBench(t)
  await bench.write('a', 3)
  await bench.publisher.publishNew(['v'])
  const next = bench.reopen()
  await bench.empty()
  await bench.write('b', 1)
  await next.publishNew(['v'])
  t.equal(await bench.seen(), 'baa')
  t.strictSame(
    next.published('v').map((s) => s.bytes),
    [1],
  )
  await bench.write('b', 2, true)
  await next.publishRest(['v'])
  t.equal(await bench.seen(), 'bb.')
})

t.test('an attempt that follows one which was through goes on where players are', async (t) => {
  const bench = await openBench(t)
  await bench.write('a', 3, true)
  await bench.publisher.publishRest(['v'])
  const next = bench.reopen()
  await bench.empty()
  await bench.write('b', 2)
  await next.publishNew(['v'])
  t.equal(await bench.seen(), 'bba.', 'and the list that they have is whole')
  await bench.write('b', 4)
  await next.publishNew(['v'])
  t.equal(await bench.seen(), 'bbbb', 'until there is more than that')
  await bench.write('b', 4, true)
  await next.publishRest(['v'])
  t.equal(await bench.seen(), 'bbbb.')
})

t.test('an attempt that was taken for dead, and comes to its end first, leaves a list that stays whole', async (t) => {
  const bench = await openBench(t)
  const next = bench.reopen()
  await bench.write('a', 2)
  await bench.publisher.publishNew(['v'])
  await bench.write('b', 1)
  await next.publishNew(['v'])
  t.equal(await bench.seen(), 'ba')
  await bench.write('a', 4, true)
  await bench.publisher.publishRest(['v'])
  await bench.write('b', 3)
  await next.publishNew(['v'])
  t.equal(await bench.seen(), 'bbba.')
})

t.test('segments of other names take the place of those before', async (t) => {
  const bench = await openBench(t)
  await bench.write('a', 3)
  await bench.publisher.publishNew(['v'])
  for (const publisher of [bench.publisher, bench.reopen()]) {
    publisher.again()
    await bench.empty()
    const isFirst = publisher === bench.publisher
    await bench.write(isFirst ? 'b' : 'c', 1, false, isFirst ? 'vc' : 'v')
    await publisher.publishNew(['v'])
    t.equal(await bench.seen(), isFirst ? 'b' : 'c')
  }
})

t.test('what is no playlist of ours is replaced', async (t) => {
  const bench = await openBench(t)
  for (const strange of ['', 'no playlist', '#EXTM3U\n#EXTINF:2,\n../x.ts', 'x'.repeat(2 ** 20 + 1)]) {
    await bench.store.put('p/v.m3u8', strange, { contentType: 'text/plain' })
    const publisher = bench.reopen()
    await bench.write('a', 2)
    await publisher.publishNew(['v'])
    t.equal(await bench.seen(), 'aa')
  }
})

t.test('what several writers have made takes the place of no list that is whole', async (t) => {
  const { publisher, store } = await openBench(t)
  const listed = async () => text((await store.get('p/v.m3u8')).body)
  const [two, three] = [row('v_00000=2 vx0a1b2c3d_00001=2'), row('v_00000=2 vx0a1b2c3d_00001=2 vx0a1b2c3d_00002=2')]
  await publisher.list('v', two.slice(0, 1))
  t.match(await listed(), /^v_00000\.ts\n$/m)
  // Another attempt has come to the end, of which this one knows nothing.
  const whole = formatMediaPlaylist({ segments: row('v_00000=2 v_00001=2'), ended: true }, 2)
  await publisher.put('v.m3u8', whole, 'application/vnd.apple.mpegurl')
  await publisher.list('v', two)
  t.equal(await listed(), whole)
  await publisher.list('v', three)
  t.match(await listed(), /^vx0a1b2c3d_00002\.ts\n$/m, 'a longer one is listed')
})

t.test('what is inspected leaves only when nothing is wrong with it', async (t) => {
  const { publisher, store, write } = await openBench(t)
  await write('a', 3)
  const seen: string[] = []
  const inspect = async (name: string, uri: string) => {
    seen.push(`${name}/${uri}`)
    if (uri === 'v_00001.ts') throw new Error('wrong')
  }
  await t.rejects(publisher.publishNew(['v'], inspect), { message: 'wrong' })
  t.strictSame(seen.sort(), ['v/v_00000.ts', 'v/v_00001.ts', 'v/v_00002.ts'])
  t.notOk(await store.head('p/v_00001.ts'))
  t.notOk(await store.head('p/v.m3u8'), 'and no list names it')
})
