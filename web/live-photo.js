export * from './viewer/live-photo.js'
