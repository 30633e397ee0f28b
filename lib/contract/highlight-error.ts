/** The values of `error.code` for a highlight that could not be made, or was withdrawn. Wire-stable. */
export const HIGHLIGHT_ERROR_CODES = ['SOURCE_DELETED', 'SOURCE_ERASED', 'ITEM_FAILED', 'TIMEOUT', 'INTERNAL'] as const
export type HighlightErrorCode = (typeof HIGHLIGHT_ERROR_CODES)[number]
