export * from './lib/media-cache.js'
