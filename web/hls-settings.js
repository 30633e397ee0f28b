/** The settings of hls.js for everything that plays. */
export const HLS = { workerPath: '/hls.worker.js', enableWorker: true }
