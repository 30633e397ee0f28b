/** Orders of a list of media items, newest first. */
export const MEDIA_SORTS = ['created_at', 'captured_at'] as const
export type MediaSort = (typeof MEDIA_SORTS)[number]
