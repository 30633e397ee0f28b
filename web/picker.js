export { pickMedia } from './library/picker.js'
