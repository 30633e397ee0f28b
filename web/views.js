export * from './shell/views.js'
