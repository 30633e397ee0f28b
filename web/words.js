export * from './lib/words.js'
