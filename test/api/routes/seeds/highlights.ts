import { randomUUID } from 'node:crypto'
import { addTo, anAlbum } from './albums.ts'
import { anEvent } from './events.ts'
import { aMedia } from './media.ts'
import { type ListSeeds, made, type Seeds, type Side } from './seed.ts'

const highlight = (...media_ids: string[]) => ({ title: randomUUID(), media_ids })

const aHighlight = async (side: Side): Promise<string> => {
  const { api, org, person } = side
  const json = highlight(await aMedia(side))
  return (await made(api.call(person, 'POST', `/api/media/${org}/highlights`, { json }))).highlight_id
}

const inOrg = ({ org, person }: Side) => ({ as: person, params: { org_id: org } })
const ofHighlight = async (side: Side) => ({
  as: side.person,
  params: { org_id: side.org, highlight_id: await aHighlight(side) },
})

export const highlightSeeds: Seeds = {
  createHighlight: async (side) => ({
    ...inOrg(side),
    json: { ...highlight(await aMedia(side), await aMedia(side)), transition: 'crossfade', captions: 'date' },
  }),
  createAlbumHighlight: async (side) => {
    const album_id = await anAlbum(side)
    const json = highlight(await addTo(side, album_id))
    return { as: side.person, params: { org_id: side.org, album_id }, json }
  },
  createEventHighlight: async (side) => {
    const event_id = await anEvent(side)
    const json = highlight(await addTo(side, await anAlbum(side, event_id)))
    return { as: side.person, params: { org_id: side.org, event_id }, json }
  },
  listHighlights: inOrg,
  listAlbumHighlights: async (side) => {
    const album_id = await listedAlbum(side)
    return { as: side.person, params: { org_id: side.org, album_id } }
  },
  getHighlight: ofHighlight,
  deleteHighlight: ofHighlight,
  listMusicTracks: ({ person }) => ({ as: person }),
}

/** The album of each side whose list the suite pages through. */
const listedAlbums = new Map<string, string>()
async function listedAlbum(side: Side): Promise<string> {
  const album = listedAlbums.get(side.org) ?? (await anAlbum(side))
  listedAlbums.set(side.org, album)
  return album
}

export const highlightLists: ListSeeds = {
  listAlbumHighlights: {
    async add(side) {
      const album = await listedAlbum(side)
      const json = highlight(await addTo(side, album))
      const path = `/api/orgs/${side.org}/albums/${album}/highlights`
      return (await made(side.api.call(side.person, 'POST', path, { json }))).highlight_id
    },
  },
  listHighlights: { add: aHighlight },
}
