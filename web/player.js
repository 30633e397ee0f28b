export * from './viewer/player.js'
