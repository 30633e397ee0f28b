import sharp, { type Sharp } from 'sharp'

/** Never sees an upload: only files that a decoder in another process wrote, and pixels. */
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({ operation: ['VipsForeignLoadJpegFile', 'VipsForeignLoadVipsFile'] })
sharp.cache(false)
sharp.concurrency(1)

export { type Sharp, sharp }
