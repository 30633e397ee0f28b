import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { readSegment } from '../../../jobs/hls/read-segment.ts'
import { type SegmentFacts, seamFault } from '../../../jobs/hls/segment-facts.ts'
import { adaptationOf, isUnitStart, PACKET, payloadStart, pidOf, STREAM_PID } from '../../../jobs/hls/ts-packets.ts'
import { clip, ffmpeg } from '../../support/clips.ts'

/** Verification reads segments itself: it must see what ffprobe sees, and refuse what no player could play. */
const run = promisify(execFile)
const folder = await mkdtemp(join(tmpdir(), 'keepsake-read-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))

const HLS = ['-f', 'hls', '-hls_time', '2', '-hls_playlist_type', 'event']
const ENCODE = ['-c:v', 'libx264', '-preset', 'veryfast', '-force_key_frames', 'expr:gte(t,n_forced*2)', '-g', '999']
await ffmpeg([
  ...['-i', await clip('early'), '-map', '0:v:0', ...ENCODE, '-output_ts_offset', '10', ...HLS],
  ...['-hls_segment_filename', join(folder, 'made_%05d.ts'), join(folder, 'made.m3u8')],
])
await ffmpeg([
  ...['-i', await clip('early'), '-map', '0:v:0', '-c', 'copy', ...HLS],
  ...['-hls_segment_filename', join(folder, 'copied_%05d.ts'), join(folder, 'copied.m3u8')],
])
const MADE = join(folder, 'made_00000.ts')
const START_CODE = Buffer.of(0, 0, 1)

async function probed(path: string) {
  const { stdout } = await run(
    'ffprobe',
    ['-v', 'error', '-select_streams', 'v:0', '-show_entries', 'packet=pts_time,flags', '-of', 'csv=p=0', path],
    { maxBuffer: 1 << 24 },
  )
  const packets = [...stdout.matchAll(/^(\d+\.\d+),(K?)/gm)].map(([, at, key]) => ({
    at: Number(at),
    isKey: key === 'K',
  }))
  const times = packets.map(({ at }) => at)
  return {
    frames: packets.length,
    first: Math.min(...times),
    last: Math.max(...times),
    keyframes: packets.filter(({ isKey }) => isKey).map(({ at }) => at),
  }
}

t.test(
  'it reads what ffprobe reads: of an encoder with frames in another order, and of a copy with many keyframes',
  async (t) => {
    for (const name of ['made_00000.ts', 'copied_00000.ts', 'copied_00001.ts']) {
      const { codec, ...facts } = await readSegment(join(folder, name))
      const wanted = await probed(join(folder, name))
      const rounded = (times: number[]) => times.map((time) => time.toFixed(6))
      t.ok(facts.frames > 1 && facts.keyframes.length > 0, name)
      t.equal(facts.frames, wanted.frames, name)
      t.strictSame(
        rounded([facts.first, facts.last, ...facts.keyframes]),
        rounded([wanted.first, wanted.last, ...wanted.keyframes]),
        name,
      )
      t.match(codec, /^avc1\.[0-9a-f]{6}$/)
    }
  },
)

/** Of the packets of a segment, those that `of` gives back. */
async function changed(name: string, of: (packets: Buffer[]) => Buffer[]): Promise<string> {
  const bytes = await readFile(MADE)
  const packets = Array.from({ length: bytes.length / PACKET }, (_, k) =>
    Buffer.from(bytes.subarray(k * PACKET, (k + 1) * PACKET)),
  )
  const path = join(folder, `${name}.ts`)
  await writeFile(path, Buffer.concat(of(packets)))
  return path
}

const isOfStream = (packet: Buffer) => pidOf(packet, 0) === STREAM_PID
const without = (packets: Buffer[], k: number) => packets.filter((_, i) => i !== k)
/** Numbers the packets of the stream anew, so that nothing but what was taken out is wrong. */
const renumbered = (packets: Buffer[]): Buffer[] => {
  let k = 0
  for (const packet of packets.filter(isOfStream)) packet[3] = ((packet[3] ?? 0) & 0xf0) | (k++ & 0x0f)
  return packets
}
const secondPicture = (packets: Buffer[]) => packets.findIndex((p, i) => i > 8 && isOfStream(p) && isUnitStart(p, 0))

t.test('it refuses what a player would stumble over', async (t) => {
  const table: [string, RegExp, (packets: Buffer[]) => Buffer[]][] = [
    ['a packet is missing', /a packet is missing/, (p) => without(p, p.length - 5)],
    ['no tables', /no table names its stream/, (p) => p.filter(isOfStream)],
    ['a broken table', /no table names its stream/, (p) => p.map((one) => (isOfStream(one) ? one : damaged(one)))],
    ['no beginning', /does not begin with a picture/, (p) => without(p, p.findIndex(isOfStream))],
    ['no keyframe', /does not begin with a keyframe/, (p) => [...tablesOf(p), ...p.slice(secondPicture(p))]],
    ['a keyframe that is none', /does not begin with a keyframe/, (p) => p.map((one) => retyped(one, 5, 1))],
    ['no parameter sets', /does not begin with a keyframe/, (p) => p.map((one) => retyped(one, 7, 6))],
    ['one kind of parameter sets', /does not begin with a keyframe/, (p) => p.map((one) => retyped(one, 8, 6))],
    ['no time', /without a time stamp/, (p) => p.map(timeless)],
    ['half of a time', /without a time stamp/, (p) => p.map(halfTimed)],
    ['the same time of decoding', /decoded before the one before it/, (p) => stampedAlike(p, DECODED)],
    ['the same time of showing', /two pictures are shown at once/, (p) => stampedAlike(p, SHOWN)],
    ['a field beyond its packet', /a packet is damaged/, (p) => p.map((one, k) => (k === 20 ? overlong(one) : one))],
    ['marked as damaged', /a packet is damaged/, (p) => p.map((one, k) => (k === 20 ? marked(one) : one))],
    ['not a packet', /not a transport stream/, (p) => p.map((one, k) => (k === 20 ? Buffer.alloc(PACKET) : one))],
    ['half a packet', /half a packet/, (p) => [...p, Buffer.alloc(7)]],
    ['nothing', /has no frames/, (p) => tablesOf(p)],
    ['a picture without a slice', /without a slice/, (p) => p.slice(0, secondPicture(p)).map(blanked)],
  ]
  for (const [name, fault, change] of table)
    await t.rejects(readSegment(await changed(name, change)), { message: fault }, name)
  const whole = await readSegment(await changed('whole', renumbered))
  t.ok(whole.frames > 1, 'and nothing that is whole')
})

const LONG_PACKETS = 300
const longHead = () =>
  changed('long', (packets) => {
    const first = packets.findIndex(isOfStream)
    return renumbered([...packets.slice(0, first + 1), ...filling(LONG_PACKETS), ...packets.slice(first + 1)])
  })

t.test('a long head, whose units lie across packets, tells the same', async (t) => {
  const { packets, ...facts } = await readSegment(await longHead())
  const wanted = await readSegment(MADE)
  t.match(wanted, facts)
  t.strictSame(packets, { first: 0, last: (wanted.packets.last + LONG_PACKETS) & 0x0f })
})

t.test('a long head is searched once, however many packets bring it', async (t) => {
  const path = await longHead()
  const { indexOf } = Buffer.prototype
  let searched = 0
  t.teardown(() => Object.assign(Buffer.prototype, { indexOf }))
  Buffer.prototype.indexOf = function (this: Buffer, what: Buffer, from = 0) {
    const at = indexOf.call(this, what, from)
    searched += (at === -1 ? this.length : at + START_CODE.length) - Number(from)
    return at
  }
  await readSegment(path)
  const bytes = LONG_PACKETS * (PACKET - 4)
  t.ok(searched > bytes && searched < 4 * bytes, `${searched} bytes of ${bytes} were searched`)
})

t.test('what one muxer writes goes on from segment to segment, and a gap between two is seen', async (t) => {
  for (const name of ['made', 'copied']) {
    const [first, second] = [
      await readSegment(join(folder, `${name}_00000.ts`)),
      await readSegment(join(folder, `${name}_00001.ts`)),
    ]
    t.equal(seamFault(first, second), undefined, name)
    t.match(seamFault(second, first), /is missing|is decoded/, name)
  }
  const before: SegmentFacts = {
    ...{ codec: 'avc1.64001f', frames: 2, first: 12, last: 13, keyframes: [12] },
    ...{ packets: { first: 3, last: 15 }, decoded: { first: 11.5, last: 12.9 } },
  }
  const next: SegmentFacts = {
    ...{ ...before, first: 14, last: 15, keyframes: [14] },
    ...{ packets: { first: 0, last: 9 }, decoded: { first: 13.5, last: 14.5 } },
  }
  const table: [string, Partial<SegmentFacts>, RegExp | undefined][] = [
    ['one after the other', {}, undefined],
    ['another codec', { codec: 'avc1.42001f' }, /is avc1\.42001f, not avc1\.64001f/],
    ['a lost packet', { packets: { first: 1, last: 9 } }, /a packet is missing before it/],
    ['a packet twice', { packets: { first: 15, last: 9 } }, /a packet is missing before it/],
    ['decoded at once', { decoded: { first: 12.9, last: 14 } }, /is decoded before/],
    ['shown at once', { first: 13 }, /is shown before/],
  ]
  for (const [name, change, wanted] of table) {
    const fault = seamFault(before, { ...next, ...change })
    if (wanted) t.match(fault, wanted, name)
    else t.equal(fault, undefined, name)
  }
})

/** Packets of empty parameter sets, each of 5 bytes. */
function filling(count: number): Buffer[] {
  const bytes = Buffer.alloc(184 * count)
  for (let at = 0; at + 5 <= bytes.length; at += 5) bytes.set([0, 0, 1, 0x68, 0xce], at)
  return Array.from({ length: count }, (_, k) =>
    Buffer.concat([Buffer.of(0x47, STREAM_PID >> 8, STREAM_PID & 0xff, 0x10), bytes.subarray(184 * k, 184 * (k + 1))]),
  )
}

const tablesOf = (packets: Buffer[]) => packets.filter((packet) => !isOfStream(packet))
function damaged(packet: Buffer): Buffer {
  const at = 4 + adaptationOf(packet, 0) + 11
  packet[at] = (packet[at] ?? 0) ^ 1
  return packet
}
function marked(packet: Buffer): Buffer {
  packet[1] = (packet[1] ?? 0) | 0x80
  return packet
}
/** Every unit of one type as one of another, where its start code lies in one packet. */
function retyped(packet: Buffer, from: number, to: number): Buffer {
  for (let at = packet.indexOf(START_CODE); at !== -1; at = packet.indexOf(START_CODE, at + 3)) {
    const unit = packet[at + 3] ?? 0
    if ((unit & 0x1f) === from) packet[at + 3] = (unit & 0xe0) | to
  }
  return packet
}
function timeless(packet: Buffer): Buffer {
  const flags = payloadStart(packet, 0) + 7
  if (isOfStream(packet) && isUnitStart(packet, 0)) packet[flags] = (packet[flags] ?? 0) & 0x3f
  return packet
}
/** Says that a time of decoding follows, where its packet ends. */
function halfTimed(packet: Buffer): Buffer {
  if (!isOfStream(packet) || !isUnitStart(packet, 0)) return packet
  const payload = packet.subarray(payloadStart(packet, 0)).subarray(0, 16)
  const field = PACKET - 4 - payload.length
  packet.fill(0xff, 4)
  packet[3] = 0x30 | ((packet[3] ?? 0) & 0x0f)
  packet.set([field - 1, 0x40], 4)
  packet.set(payload, PACKET - payload.length)
  return packet
}
/** Where the header of a PES packet says when its picture is shown and decoded, 5 bytes each. */
const [SHOWN, DECODED] = [9, 14]
/** The second picture with one of the times of the first. */
function stampedAlike(packets: Buffer[], field: number): Buffer[] {
  const [from, to] = [packets[packets.findIndex(isOfStream)], packets[secondPicture(packets)]]
  if (!from || !to) throw new Error('no two pictures')
  const at = (packet: Buffer) => payloadStart(packet, 0) + field
  from.copy(to, at(to), at(from), at(from) + 5)
  return packets
}
function overlong(packet: Buffer): Buffer {
  packet[3] = (packet[3] ?? 0) | 0x20
  packet[4] = 200
  return packet
}
/** Zeros in place of the picture; the header of its PES packet has 19 bytes. */
const blanked = (packet: Buffer): Buffer =>
  isOfStream(packet) ? packet.fill(0, payloadStart(packet, 0) + (isUnitStart(packet, 0) ? 19 : 0)) : packet
