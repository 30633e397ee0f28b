/** The settings of hls.js for everything that plays. */
export const HLS = { workerPath: '/vendor/hls.worker.js', enableWorker: true }
