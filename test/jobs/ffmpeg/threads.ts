import t from 'tap'
import { decoderThreads, encoderThreads, filterThreads } from '../../../jobs/ffmpeg/threads.ts'

const HD = { width: 1920, height: 1080 }
const UHD = { width: 3840, height: 2160 }
/** The largest picture that an upload may have. */
const LARGEST = { width: 8192, height: 4394 }

const table: [cores: number, encoder: number, hd: number, uhd: number, largest: number, filters: number][] = [
  [0, 1, 1, 1, 1, 1],
  [1, 1, 1, 1, 1, 1],
  [2, 3, 3, 3, 2, 2],
  [3, 4, 4, 4, 2, 3],
  [4, 6, 5, 5, 2, 4],
  [8, 12, 9, 9, 2, 8],
  [16, 12, 9, 9, 2, 8],
  [64, 12, 9, 9, 2, 8],
]
for (const [cores, encoder, hd, uhd, largest, filters] of table) {
  t.test(`${cores} cores`, async (t) => {
    t.equal(encoderThreads(cores), encoder, 'an encoder')
    t.strictSame(
      [HD, UHD, LARGEST].map((size) => decoderThreads(cores, size)),
      [hd, uhd, largest],
      'a decoder of HD, of UHD, of the largest picture',
    )
    t.equal(filterThreads(cores), filters, 'the filters')
  })
}
