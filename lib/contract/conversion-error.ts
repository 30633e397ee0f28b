/** What `metadata.conversion.error.code` may say of a media that could not be converted. Wire-stable. */
export const CONVERSION_ERROR_CODES = [
  'UNSUPPORTED_CODEC',
  'CORRUPT_INPUT',
  'LIMIT_EXCEEDED',
  'TIMEOUT',
  'INTERNAL',
] as const
export type ConversionErrorCode = (typeof CONVERSION_ERROR_CODES)[number]

/** The reasons that blame the file, by the code its uploader sees. Whatever is not listed is our own trouble: INTERNAL. */
const CODE_OF = new Map<string, ConversionErrorCode>([
  ['UnsupportedCodec', 'UNSUPPORTED_CODEC'],
  ['UnsupportedFormat', 'UNSUPPORTED_CODEC'],
  ['NoVideoStream', 'UNSUPPORTED_CODEC'],
  ['CorruptInput', 'CORRUPT_INPUT'],
  ['Truncated', 'CORRUPT_INPUT'],
  ['LimitExceeded', 'LIMIT_EXCEEDED'],
  ['Timeout', 'TIMEOUT'],
  // What Kubernetes itself calls an attempt that ran past its deadline.
  ['DeadlineExceeded', 'TIMEOUT'],
])

/** Translates the reason of a JobResult, or of a TranscodeJob's condition, to the API's code. Total: never throws. */
export const conversionErrorOf = (reason: string | undefined): ConversionErrorCode =>
  CODE_OF.get(reason ?? '') ?? 'INTERNAL'
