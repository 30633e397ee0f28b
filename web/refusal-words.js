export * from './lib/refusals.js'
