import { call } from './api.js'
import { guestGroups } from './guest-groups.js'
import { useRef } from './html.js'
import { usePolled } from './poll.js'

/**
 * What a link names, in whichever group of the person it is: links do not say that. The groups are asked one after the
 * other, the one that is shown first, and then those of whose events the person is a guest. Undefined when none has it.
 */
export async function findInGroups(pathIn, { organizations, first }) {
  const own = [...(first ? [first] : []), ...organizations.filter((o) => o !== first)]
  return (await findIn(pathIn, own)) ?? findIn(pathIn, await guestGroups())
}

async function findIn(pathIn, groups) {
  for (const org of groups) {
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

/**
 * The resource of a view `{id, org, organizations, onFound}`, found in whichever group it is, then kept up to date:
 * `{data, error, reload, set, org, path}`. `org` and `path` are there with `data`. `onFound(org)` is told the group, unless the person is a guest there. An
 * error with status 404: none of the groups has it, or not any more. `beside(data, {org, path})` looks at what is shown
 * with it, in the same turn.
 */
export function useInGroups(pathIn, { id, org, organizations, onFound }, every, beside = async () => {}) {
  const place = useRef()
  const look = async () => {
    const data = await find()
    await beside(data, place.current)
    return data
  }
  const find = async () => {
    if (place.current?.id === id) return call('GET', place.current.path)
    const found = await findInGroups(pathIn, { organizations, first: org })
    if (!found) throw Object.assign(new Error('There is nothing here, or it is not for you.'), { status: 404 })
    place.current = { id, org: found.org, path: found.path }
    if (!found.org.isGuest) onFound(found.org)
    return found.found
  }
  const polled = usePolled(look, [id], every)
  return { ...polled, org: place.current?.org, path: place.current?.path }
}
