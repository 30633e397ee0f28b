export * from './lib/ids.js'
