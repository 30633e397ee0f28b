export * from './lib/pager.js'
