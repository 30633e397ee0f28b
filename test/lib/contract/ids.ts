import fc from 'fast-check'
import t from 'tap'
import {
  formatId,
  type IdKind,
  idPattern,
  newUuid,
  PREFIXES,
  parseId,
  suffixOf,
  uuidOfSuffix,
} from '../../../lib/contract/ids.ts'

const kinds = Object.keys(PREFIXES) as IdKind[]
const anyKind = fc.constantFrom(...kinds)
const anyUuid = fc.uuid()

// The valid vectors of the TypeID specification 0.3 (spec/valid.yml), by their suffix.
const VECTORS: [string, string, string][] = [
  ['nil', '00000000000000000000000000', '00000000-0000-0000-0000-000000000000'],
  ['one', '00000000000000000000000001', '00000000-0000-0000-0000-000000000001'],
  ['ten', '0000000000000000000000000a', '00000000-0000-0000-0000-00000000000a'],
  ['sixteen', '0000000000000000000000000g', '00000000-0000-0000-0000-000000000010'],
  ['thirty-two', '00000000000000000000000010', '00000000-0000-0000-0000-000000000020'],
  ['max-valid', '7zzzzzzzzzzzzzzzzzzzzzzzzz', 'ffffffff-ffff-ffff-ffff-ffffffffffff'],
  ['valid-alphabet', '0123456789abcdefghjkmnpqrs', '0110c853-1d09-52d8-d73e-1194e95b5f19'],
  ['valid-uuidv7', '01h455vb4pex5vsknk084sn02q', '01890a5d-ac96-774b-bcce-b302099a8057'],
]
for (const [name, suffix, uuid] of VECTORS) {
  t.test(`agrees with the TypeID specification: ${name}`, async (t) => {
    t.equal(suffixOf(uuid), suffix)
    t.equal(uuidOfSuffix(suffix), uuid)
    t.equal(formatId('media', uuid), `med_${suffix}`)
    t.equal(parseId('media', `med_${suffix}`), uuid)
  })
}

t.test('every UUID survives the way out and back, and matches its own pattern', async (t) => {
  fc.assert(
    fc.property(anyKind, anyUuid, (kind, uuid) => {
      const id = formatId(kind, uuid)
      return parseId(kind, id) === uuid && idPattern(kind).test(id)
    }),
  )
  t.pass()
})

t.test('ids sort as their UUIDs do', async (t) => {
  fc.assert(fc.property(anyUuid, anyUuid, (a, b) => a < b === formatId('user', a) < formatId('user', b)))
  t.pass()
})

t.test('an id of one kind is not an id of another', async (t) => {
  fc.assert(
    fc.property(anyKind, anyKind, anyUuid, (a, b, uuid) => a === b || parseId(b, formatId(a, uuid)) === undefined),
  )
  t.pass()
})

t.test('whatever is parsed is either nothing or the one spelling of an id', async (t) => {
  const nearly = fc.tuple(anyKind, fc.stringMatching(/^[0-9a-zA-Z]{24,28}$/)).map(([k, s]) => `${PREFIXES[k]}_${s}`)
  fc.assert(
    fc.property(fc.oneof(fc.string(), nearly), (text) =>
      kinds.every((kind) => {
        const uuid = parseId(kind, text)
        return uuid === undefined || formatId(kind, uuid) === text || uuid === text.toLowerCase()
      }),
    ),
  )
  t.pass()
})

const REFUSED: [string, string][] = [
  ['empty', ''],
  ['prefix only', 'med_'],
  ['too large for 128 bits', 'med_8zzzzzzzzzzzzzzzzzzzzzzzzz'],
  ['too short', 'med_0000000000000000000000000'],
  ['too long', 'med_000000000000000000000000000'],
  ['upper case', 'med_01H455VB4PEX5VSKNK084SN02Q'],
  ['letter i', 'med_0000000000000000000000000i'],
  ['letter u', 'med_0000000000000000000000000u'],
  ['hyphen', 'med_0000000000000-000000000000'],
  ['another prefix', 'usr_01h455vb4pex5vsknk084sn02q'],
  ['two prefixes', 'med_med_01h455vb4pex5vsknk084sn02q'],
  ['line break at the end', 'med_01h455vb4pex5vsknk084sn02q\n'],
  ['UUID with a line break', '01890a5d-ac96-774b-bcce-b302099a8057\n'],
  ['UUID without hyphens', '01890a5dac96774bbcceb302099a8057'],
  ['UUID in braces', '{01890a5d-ac96-774b-bcce-b302099a8057}'],
]
for (const [name, text] of REFUSED) {
  t.test(`is not an id: ${name}`, async (t) => t.equal(parseId('media', text), undefined))
}

t.test('a bare UUID is an id of any kind, in either case', async (t) => {
  t.equal(parseId('media', '01890A5D-AC96-774B-BCCE-B302099A8057'), '01890a5d-ac96-774b-bcce-b302099a8057')
})

t.test('new UUIDs are of version 7, hold their time, sort by it and do not repeat', async (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 48 - 1 }), (ms) => {
      const uuid = newUuid(ms)
      return (
        /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(uuid) &&
        Number.parseInt(uuid.replace('-', '').slice(0, 12), 16) === ms
      )
    }),
  )
  t.ok(newUuid(1000) < newUuid(1001))
  t.equal(new Set(Array.from({ length: 10_000 }, () => newUuid(5))).size, 10_000)
})
