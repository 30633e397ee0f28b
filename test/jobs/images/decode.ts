import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import t from 'tap'
import { decode } from '../../../jobs/images/decode.ts'
import { parseExif } from '../../../jobs/images/exif.ts'
import { orientationOf } from '../../../jobs/images/facts.ts'
import { effectiveOrientation } from '../../../jobs/images/policy.ts'
import { readHeader } from '../../../jobs/images/read-header.ts'
import { segment, withSegments } from '../../support/image-bombs.ts'
import { arrangement, chunk, directory, heic, quarters, tiff, tiffOf, u32 } from '../../support/pictures.ts'
import { quietLog } from '../../support/quiet-log.ts'

// Pictures come and go by the same names.
sharp.cache(false)

const folder = await mkdtemp(join(tmpdir(), 'keepsake-decode-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))

/** A highlight needs no JPEG of its photos, and at most 2048 pixels a side. A conversion may need one. */
async function decoded(bytes: Buffer, { needsJpeg }: { needsJpeg: boolean }): Promise<Buffer> {
  await writeFile(join(folder, 'source'), bytes)
  const header = await readHeader(join(folder, 'source'))
  const orientation = effectiveOrientation(header, orientationOf(parseExif(header.exif)))
  const { signal } = new AbortController()
  const name = await decode({ folder, header, orientation, needsJpeg, signal, log: quietLog() })
  return sharp(join(folder, name), { ignoreIcc: true }).png().toBuffer()
}

const EXIF = Buffer.from('Exif\0\0')

t.test('a picture is upright, no matter what its format says it by', async (t) => {
  const lying = () => quarters(128, 64)
  const png = await lying().png().toBuffer()
  const exif = async (orientation: number) => ({ rows: 1, columns: 2, exif: await tiffOf({}, orientation) })
  const both = async (first: readonly [type: number, count: number, value: number], second: number) => {
    const block = tiff([
      directory([
        [0x0112, ...first],
        [0x0112, 3, 1, second << 16],
      ]),
      u32(6 << 16, 0),
    ])
    return withSegments(await lying().jpeg().toBuffer(), segment(0xe1, EXIF, block))
  }
  const photos: Record<string, [Buffer, number[]]> = {
    jpeg: [await lying().withMetadata({ orientation: 6 }).jpeg().toBuffer(), [2, 0, 3, 1]],
    png: [await lying().withMetadata({ orientation: 6 }).png().toBuffer(), [2, 0, 3, 1]],
    webp: [await lying().withMetadata({ orientation: 6 }).webp().toBuffer(), [2, 0, 3, 1]],
    'PNG, with the header of JPEG': [
      Buffer.concat([png.subarray(0, 33), chunk('eXIf', Buffer.concat([EXIF, await tiffOf({}, 6)])), png.subarray(33)]),
      [2, 0, 3, 1],
    ],
    'JPEG, with a second header': [
      withSegments(await lying().jpeg().toBuffer(), segment(0xe1, EXIF, EXIF, await tiffOf({}, 6))),
      [2, 0, 3, 1],
    ],
    'JPEG, with two orientations': [await both([3, 1, 6 << 16], 1), [2, 0, 3, 1]],
    'JPEG, with two orientations, one of another type': [await both([4, 1, 6], 1), [2, 0, 3, 1]],
    'JPEG, with two orientations, one of several numbers': [await both([3, 3, 38], 1), [2, 0, 3, 1]],
    'JPEG, with two orientations, one of no number': [await both([3, 0, 0], 6), [2, 0, 3, 1]],
    'HEIC, by EXIF': [await heic(png, await exif(6)), [2, 0, 3, 1]],
    'HEIC, by EXIF, mirrored': [await heic(png, await exif(5)), [0, 2, 1, 3]],
    'HEIC, by itself': [await heic(png, { ...(await exif(6)), irot: 3 }), [2, 0, 3, 1]],
  }
  for (const [name, [bytes, order]] of Object.entries(photos)) {
    for (const needsJpeg of [false, true]) {
      const upright = await decoded(bytes, { needsJpeg })
      t.match(await sharp(upright).metadata(), { width: 64, height: 128 }, name)
      t.strictSame(await arrangement(upright), order, name)
    }
  }
})
