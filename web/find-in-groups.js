import { call } from './client.js'

/**
 * What a link names, in whichever group of the person it is: links do not say that. The groups are asked one after the
 * other, the one that is shown first. Undefined when none of them has it.
 */
export async function findInGroups(pathIn, { organizations, first }) {
  for (const org of [first, ...organizations.filter((o) => o !== first)]) {
    const path = pathIn(org)
    const found = await call('GET', path).catch(ifUnknown)
    if (found) return { found, org, path }
  }
  return undefined
}

const ifUnknown = (error) => {
  // An id that is none is answered as an unknown one.
  if (error.status !== 404 && error.status !== 400) throw error
}
