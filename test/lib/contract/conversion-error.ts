import t from 'tap'
import { conversionErrorOf } from '../../../lib/contract/conversion-error.ts'

const table: [string | undefined, string][] = [
  ['UnsupportedCodec', 'UNSUPPORTED_CODEC'],
  ['UnsupportedFormat', 'UNSUPPORTED_CODEC'],
  ['NoVideoStream', 'UNSUPPORTED_CODEC'],
  ['CorruptInput', 'CORRUPT_INPUT'],
  ['Truncated', 'CORRUPT_INPUT'],
  ['LimitExceeded', 'LIMIT_EXCEEDED'],
  ['Timeout', 'TIMEOUT'],
  ['DeadlineExceeded', 'TIMEOUT'],
  ['EncoderMissing', 'INTERNAL'],
  ['BackoffLimitExceeded', 'INTERNAL'],
  ['constructor', 'INTERNAL'],
  [undefined, 'INTERNAL'],
]
for (const [reason, code] of table) {
  t.test(`the reason ${reason} is shown as ${code}`, async (t) => {
    t.equal(conversionErrorOf(reason), code)
  })
}
