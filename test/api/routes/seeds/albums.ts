import { randomUUID } from 'node:crypto'
import { anEvent } from './events.ts'
import { aMedia } from './media.ts'
import { type ListSeeds, made, type Seeds, type Side } from './seed.ts'

const album = () => ({ title: randomUUID() })

export const anAlbum = async ({ api, org, person }: Side, event?: string): Promise<string> => {
  const json = { ...album(), ...(event && { event_id: event }) }
  return (await made(api.call(person, 'POST', `/api/orgs/${org}/albums`, { json }))).album_id
}

export const addTo = async (side: Side, albumId: string): Promise<string> => {
  const { api, org, person } = side
  const json = { media_id: await aMedia(side) }
  return (await made(api.call(person, 'POST', `/api/orgs/${org}/albums/${albumId}/media`, { json }))).media_id
}

const inOrg = ({ org, person }: Side) => ({ as: person, params: { org_id: org } })
const ofAlbum = async (side: Side) => ({
  as: side.person,
  params: { org_id: side.org, album_id: await anAlbum(side) },
})
const ofItem = async (side: Side) => {
  const { as, params } = await ofAlbum(side)
  return { as, params: { ...params, media_id: await addTo(side, params.album_id) } }
}

/** All requests of one list ask for the same album. */
const collections = new WeakMap<Side, Promise<string>>()
const theCollection = (side: Side): Promise<string> => {
  const known = collections.get(side) ?? anAlbum(side)
  collections.set(side, known)
  return known
}

export const albumSeeds: Seeds = {
  createAlbum: async (side) => ({ ...inOrg(side), json: { ...album(), event_id: await anEvent(side) } }),
  listAlbums: inOrg,
  getAlbum: ofAlbum,
  getEventAlbum: async (side) => {
    const event = await anEvent(side)
    await anAlbum(side, event)
    return { as: side.person, params: { org_id: side.org, event_id: event } }
  },
  updateAlbum: async (side) => {
    const { as, params } = await ofItem(side)
    return {
      as,
      params: { org_id: params.org_id, album_id: params.album_id },
      json: { ...album(), cover_media_id: params.media_id },
    }
  },
  deleteAlbum: ofAlbum,
  setAlbumStatus: async (side) => ({ as: side.person, json: { album_id: await anAlbum(side), status: 'PUBLIC' } }),
  listAlbumMedia: async (side) => ({
    as: side.person,
    params: { org_id: side.org, album_id: await theCollection(side) },
  }),
  addAlbumMedia: async (side) => ({
    ...(await ofAlbum(side)),
    json: { media_id: await aMedia(side), caption: randomUUID() },
  }),
  reorderAlbumMedia: async (side) => {
    const { as, params } = await ofAlbum(side)
    const [a, b] = [await addTo(side, params.album_id), await addTo(side, params.album_id)]
    return { as, params, json: { media_ids: [b, a] } }
  },
  setAlbumMediaCaption: async (side) => ({ ...(await ofItem(side)), json: { caption: randomUUID() } }),
  removeAlbumMedia: ofItem,
}

export const albumLists: ListSeeds = {
  listAlbums: { add: anAlbum },
  listAlbumMedia: { add: async (side) => addTo(side, await theCollection(side)) },
}
