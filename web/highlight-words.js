import { refusedItems } from './highlights/words.js'

export * from './highlights/words.js'
export const refusedPlaces = (error) => [...refusedItems(error).keys()]
