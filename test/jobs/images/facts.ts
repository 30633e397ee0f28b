import t from 'tap'
import { parseExif } from '../../../jobs/images/exif.ts'
import { factsOf, orientationOf } from '../../../jobs/images/facts.ts'
import { directory, tiff, tiffOf, u16 } from '../../support/pictures.ts'

const none = { image: {}, photo: {}, gps: {} }
const noon = '2024:05:17 12:20:30'
const gpsAt = (hours: number, minutes: number, day = '2024:05:17') => ({
  GPSDateStamp: day,
  GPSTimeStamp: [hours, minutes, 12.5],
})

t.test('the time of capture has the offset that is known best', (t) => {
  const at = (photo: object, gps: object = {}, image: object = {}) =>
    factsOf({ image: { ...image }, photo: { ...photo }, gps: { ...gps } }).capturedAt
  const DateTimeOriginal = noon
  t.equal(at({ DateTimeOriginal, OffsetTimeOriginal: '+05:30' }, gpsAt(9, 0)), '2024-05-17T12:20:30+05:30')
  t.equal(at({ DateTimeOriginal, OffsetTime: '-03:00' }), '2024-05-17T12:20:30-03:00')
  const edited = { OffsetTime: '-03:00' }
  t.equal(at({ DateTimeOriginal, ...edited }, gpsAt(3, 20)), '2024-05-17T12:20:30+09:00', 'edited in another zone')
  t.equal(at({ DateTimeOriginal, ...edited, OffsetTimeDigitized: '+08:00' }, gpsAt(3, 20)), '2024-05-17T12:20:30+08:00')
  const DateTime = '2024:05:18 09:00:00'
  t.equal(at({ DateTimeOriginal, ...edited }, gpsAt(3, 20), { DateTime }), '2024-05-17T12:20:30+09:00', 'edited later')
  const unedited = { DateTime: noon }
  t.equal(at({ DateTimeOriginal, ...edited }, gpsAt(14, 40), unedited), '2024-05-17T12:20:30-03:00', 'an old GPS fix')
  t.equal(at({ DateTimeOriginal }, gpsAt(10, 18), unedited), '2024-05-17T12:20:30+02:00', 'unedited, by GPS')
  t.equal(at({ DateTimeOriginal, ...edited }, gpsAt(12, 0, '2024:05:01')), '2024-05-17T12:20:30-03:00')
  t.equal(at(edited, gpsAt(3, 20), { DateTime: noon }), '2024-05-17T12:20:30-03:00', 'the change itself')
  t.equal(at({ DateTimeOriginal, OffsetTimeOriginal: '   :  ' }), '2024-05-17T12:20:30Z', 'an empty offset')
  t.equal(at({ DateTimeOriginal }, gpsAt(10, 18)), '2024-05-17T12:20:30+02:00', 'by GPS')
  t.equal(at({ DateTimeOriginal }, gpsAt(6, 36)), '2024-05-17T12:20:30+05:45', 'by GPS, in Nepal')
  t.equal(at({ DateTimeOriginal }, gpsAt(0, 20, '2024:05:18')), '2024-05-17T12:20:30-12:00', 'by GPS, a day ahead')
  t.equal(at({ DateTimeOriginal }, gpsAt(12, 0, '2024:05:01')), '2024-05-17T12:20:30Z', 'a GPS that is days off')
  t.equal(at({ DateTimeOriginal }), '2024-05-17T12:20:30Z', 'no zone known')
  t.equal(at({}, gpsAt(9, 5)), '2024-05-17T09:05:12Z', 'the time of the GPS alone')
  t.equal(at({}, {}, { DateTime: noon }), '2024-05-17T12:20:30Z')
  t.equal(at({ DateTimeOriginal: 'yesterday' }), null)
  t.equal(at({}, gpsAt(9, 5, '1980:01:06')), null, 'a GPS without a fix')
  t.equal(at({}, gpsAt(0, 0, '0000:00:00')), null, 'a GPS that writes zeros')
  t.equal(at({}), null)
  t.end()
})

t.test('a scan has the time of its print, and a clock that was never set has none', async (t) => {
  const at = async (DateTimeOriginal: string) =>
    factsOf(parseExif(await tiffOf({ IFD2: { DateTimeOriginal } }))).capturedAt
  for (const [text, captured] of [
    ['1826:07:01 09:00:00', '1826-07-01T09:00:00Z'],
    ['1974:05:17 12:20:30', '1974-05-17T12:20:30Z'],
    ['1980:01:01 00:14:00', '1980-01-01T00:14:00Z'],
    ['2000:01:01 00:00:00', '2000-01-01T00:00:00Z'],
    ['1825:12:31 23:59:59', null],
    ['1904:01:01 00:00:00', null],
    ['1970:01:01 00:00:00', null],
    ['1970:01:01 08:00:05', null],
    ['1969:12:31 16:00:00', null],
    ['1970:01:01 14:00:01', '1970-01-01T14:00:01Z'],
    ['1980:01:01 00:00:00', null],
    ['0000:00:00 00:00:00', null],
    ['0000:01:01 00:00:00', null],
    ['0001:01:01 00:00:00', null],
    ['2024:02:30 12:00:00', null],
    ['2024:05:17 24:00:00', null],
    ['1998:00:00 00:00:00', '1998-01-01T00:00:00Z'],
    ['1998:06:00 00:00:00', '1998-06-01T00:00:00Z'],
    ['1998:  :     :  :  ', '1998-01-01T00:00:00Z'],
    ['1998:06:05', '1998-06-05T00:00:00Z'],
    ['2005:08:17  9:05:02', '2005-08-17T09:05:02Z'],
    ['2005:08:17 09:05:02 ', '2005-08-17T09:05:02Z'],
    ['2005-08-17T09:05:02', '2005-08-17T09:05:02Z'],
    ['2005:8:17 9:05:02', null],
    ['    :  :     :  :  ', null],
  ] as const) {
    t.equal(await at(text), captured, text)
  }
})

t.test('a time ends with one NUL, with two, or with none', (t) => {
  const at = (text: string) => {
    const directories = [directory([[0x8769, 4, 1, 26]]), directory([[0x9003, 2, text.length, 44]])]
    return factsOf(parseExif(tiff([...directories, Buffer.from(text, 'latin1')]))).capturedAt
  }
  for (const end of ['', '\0', '\0\0', '\0\xff', ' \0']) {
    t.equal(at(`2024:05:17 12:20:30${end}`), '2024-05-17T12:20:30Z', JSON.stringify(end))
  }
  t.end()
})

t.test('a directory is found by an address of two bytes', async (t) => {
  const big = tiff([directory([[0x8769, 3, 1, 26 << 16]]), directory([[0x9003, 2, 20, 44]]), Buffer.from(`${noon}\0`)])
  const little = await tiffOf({ IFD2: { DateTimeOriginal: noon } })
  little.writeUInt16LE(3, little.indexOf(u16(0x6987), 8) + 2)
  for (const block of [big, little]) {
    const exif = parseExif(block)
    t.equal(factsOf(exif).capturedAt, '2024-05-17T12:20:30Z')
    t.equal(exif.isReadable, false, 'not all readers find it')
  }
})

t.test('the first time that counts is taken, with the rest of its second', (t) => {
  const at = (photo: object, image: object = {}) =>
    factsOf({ image: { ...image }, photo: { ...photo }, gps: {} }).capturedAt
  const DateTimeDigitized = '2021:03:04 05:06:07'
  for (const none of ['0000:00:00 00:00:00', '    :  :     :  :  ', '1970:01:01 00:00:00', '2024:02:30 12:00:00']) {
    t.equal(at({ DateTimeOriginal: none, DateTimeDigitized }), '2021-03-04T05:06:07Z', none)
    t.equal(at({ DateTimeOriginal: none }, { DateTime: noon }), '2024-05-17T12:20:30Z', none)
  }
  const DateTimeOriginal = noon
  t.equal(at({ DateTimeOriginal, OffsetTimeOriginal: '   :  ', OffsetTime: '+02:00' }), '2024-05-17T12:20:30+02:00')
  t.equal(at({ DateTimeOriginal, SubSecTimeOriginal: '05' }), '2024-05-17T12:20:30.050Z')
  t.equal(at({ DateTimeOriginal, SubSecTimeOriginal: '123456', OffsetTime: '+02:00' }), '2024-05-17T12:20:30.123+02:00')
  t.equal(at({ DateTimeOriginal, SubSecTimeOriginal: '00  ' }), '2024-05-17T12:20:30Z')
  t.equal(at({ DateTimeOriginal, SubSecTimeOriginal: 'x' }), '2024-05-17T12:20:30Z')
  t.equal(at({ DateTimeOriginal, SubSecTime: '5' }), '2024-05-17T12:20:30Z', 'of another time')
  t.equal(at({ SubSecTime: '5' }, { DateTime: noon }), '2024-05-17T12:20:30.500Z')
  t.equal(at({ DateTimeOriginal: '1980:01:01 00:00:00', SubSecTimeOriginal: '12' }), null, 'a clock that was never set')
  t.end()
})

t.test('a place is a place on earth', (t) => {
  const at = (gps: object) => factsOf({ ...none, gps: { ...gps } }).location
  const north = { GPSLatitude: [48, 8, 6.36], GPSLatitudeRef: 'N' }
  t.strictSame(at({ ...north, GPSLongitude: [11, 34, 55.2], GPSLongitudeRef: 'W' }), {
    latitude: 48.1351,
    longitude: -11.582,
  })
  t.equal(at({ ...north, GPSLongitude: [200, 0, 0] }), null)
  t.equal(at({ ...north }), null)
  t.equal(at({ GPSLatitude: [0, 0, 0], GPSLongitude: [0, 0, 0] }), null, 'a phone without a fix')
  const west = { GPSLongitude: [11, 34.92, Number.NaN], GPSLongitudeRef: 'W' }
  t.strictSame(at({ ...north, ...west }), { latitude: 48.1351, longitude: -11.582 }, 'seconds of 0/0')
  t.equal(at({ ...north, GPSLongitude: [11, 34, Number.POSITIVE_INFINITY] }), null)
  t.equal(at({ GPSLatitude: [Number.NaN, 0, 0], GPSLongitude: [1, 0, 0] }), null)
  t.end()
})

t.test('only tags that say nothing about the owner are kept', (t) => {
  const photo = {
    ...{ ExposureTime: 1 / 120, FNumber: 1.78, ISOSpeedRatings: 64, FocalLength: 6.86, Flash: 1 },
    ...{ LensModel: 'Lens\0\u202e 26mm', BodySerialNumber: '42', CameraOwnerName: 'Jo', UserComment: 'at home' },
  }
  t.strictSame(factsOf({ ...none, photo }).exif, {
    ...{ ExposureTime: '1/120', FNumber: 'f/1.78', ISOSpeedRatings: '64', FocalLength: '6.86 mm', Flash: 'fired' },
    LensModel: 'Lens 26mm',
  })
  t.strictSame(factsOf({ ...none, photo: { ExposureTime: Number.NaN, ISOSpeedRatings: 'x' } }).exif, {})
  const camera = factsOf({ ...none, image: { Make: Buffer.from('Acmé'), Model: 'x'.repeat(500) } }).camera
  t.strictSame(camera, { make: 'Acmé', model: 'x'.repeat(128) })
  // Postgres refuses JSON with one half of a pair.
  const cut = factsOf({ ...none, image: { Model: `${'x'.repeat(127)}📷` } }).camera
  t.strictSame(cut, { make: null, model: 'x'.repeat(127) })
  t.end()
})

t.test('an orientation that EXIF does not know counts as upright', (t) => {
  t.strictSame(
    [0, 9, 2.5, '6', 6].map((Orientation) => orientationOf({ ...none, image: { Orientation } })),
    [1, 1, 1, 1, 6],
  )
  t.end()
})
