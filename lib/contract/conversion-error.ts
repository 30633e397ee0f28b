/** The values of `metadata.conversion.error.code` for a media item that could not be converted. Wire-stable. */
export const CONVERSION_ERROR_CODES = [
  'UNSUPPORTED_CODEC',
  'CORRUPT_INPUT',
  'LIMIT_EXCEEDED',
  'TIMEOUT',
  'INTERNAL',
] as const
export type ConversionErrorCode = (typeof CONVERSION_ERROR_CODES)[number]

/** Maps reasons that blame the file to the code that the uploader sees. All other reasons are INTERNAL. */
const CODE_OF = new Map<string, ConversionErrorCode>([
  ['UnsupportedCodec', 'UNSUPPORTED_CODEC'],
  ['UnsupportedFormat', 'UNSUPPORTED_CODEC'],
  ['NoVideoStream', 'UNSUPPORTED_CODEC'],
  ['CorruptInput', 'CORRUPT_INPUT'],
  ['Truncated', 'CORRUPT_INPUT'],
  ['LimitExceeded', 'LIMIT_EXCEEDED'],
  ['Timeout', 'TIMEOUT'],
  // The reason that Kubernetes gives for a pod or Job past its deadline.
  ['DeadlineExceeded', 'TIMEOUT'],
])

/** Translates the reason of a JobResult, or of a TranscodeJob's condition, to the API's code. Never throws. */
export const conversionErrorOf = (reason: string | undefined): ConversionErrorCode =>
  CODE_OF.get(reason ?? '') ?? 'INTERNAL'
