export * from './lib/media.js'
