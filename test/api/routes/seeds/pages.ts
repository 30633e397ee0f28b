import type { Seeds } from './seed.ts'

/** What needs nothing but its address. */
export const pageSeeds: Seeds = {
  getHealth: () => ({}),
  getOpenApiDocument: () => ({}),
  getReferencePage: () => ({}),
  getReferenceFile: () => ({ params: { file: 'start.js' } }),
}
