export { drawPlaceholder } from './lib/picture.js'
