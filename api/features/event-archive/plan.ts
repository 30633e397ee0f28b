/** An original that something else held moves at one of the later looks, which are so far apart. */
export const LOOK_AGAIN = 'P30D'

/**
 * A media item was added for the event when its uploader put it there within this time of the upload. A photo that had been in
 * the library for longer was not uploaded for the event, and stays in the library.
 */
export const ADDED_WITHIN = 'PT24H'

/** One process purges the media item that it has taken out of the library. Longer than the purge of one takes. */
export const MEDIA_LEASE_SECONDS = 600
/** Of so many media items at once a purge asks which of them stay. */
export const LOOKAHEAD = 100
/** An event of which a media item is in other hands, such as a purge of the trash, is looked at again after this time. */
export const BUSY_SECONDS = 3600
