export * from './viewer/viewer.js'
