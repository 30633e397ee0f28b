import { randomInt } from 'node:crypto'
import { fakeMp4, formOf, pathOf } from '../../../support/api.ts'
import { type ListSeeds, made, type Seeds, type Side } from './seed.ts'

export const aMedia = async ({ api, org, person }: Side): Promise<string> => {
  const form = formOf(fakeMp4(1000))
  return (await made(api.call(person, 'POST', `/api/media/${org}/single`, { form }))).media_id
}

const upload = () => ({
  filename: `clip-${randomInt(2 ** 40)}.mp4`,
  mime_type: 'video/mp4',
  file_size_bytes: 1000,
  chunk_size_bytes: 1000,
})
const anUpload = async ({ api, org, person }: Side): Promise<string> =>
  (await made(api.call(person, 'POST', `/api/media/${org}/upload`, { json: upload() }))).upload_id

const aWholeUpload = async (side: Side): Promise<string> => {
  const { api, org, person } = side
  const id = await anUpload(side)
  await made(api.call(person, 'PUT', `/api/media/${org}/upload/${id}/0`, { bytes: fakeMp4(1000) }))
  return id
}

const aDeletedMedia = async (side: Side): Promise<string> => {
  const { api, org, person } = side
  const id = await aMedia(side)
  await made(api.call(person, 'DELETE', `/api/media/${org}/${id}`))
  return id
}

const inOrg = ({ org, person }: Side) => ({ as: person, params: { org_id: org } })
const ofMedia = async (side: Side) => ({
  as: side.person,
  params: { org_id: side.org, media_id: await aMedia(side) },
})
const ofUpload = async (side: Side) => ({
  as: side.person,
  params: { org_id: side.org, upload_id: await anUpload(side) },
})

export const mediaSeeds: Seeds = {
  listMedia: inOrg,
  listMediaMonths: async (side) => {
    await aMedia(side)
    return inOrg(side)
  },
  getMedia: ofMedia,
  getMediaMetadata: ofMedia,
  deleteMedia: ofMedia,
  restoreMedia: async (side) => ({
    as: side.person,
    params: { org_id: side.org, media_id: await aDeletedMedia(side) },
  }),
  listTrash: inOrg,
  uploadSingle: (side) => ({ ...inOrg(side), form: formOf(fakeMp4(1000)) }),
  startUpload: (side) => ({ ...inOrg(side), json: upload() }),
  putChunk: async (side) => {
    const { as, params } = await ofUpload(side)
    return { as, params: { ...params, chunk_index: '0' }, bytes: fakeMp4(1000) }
  },
  getUpload: ofUpload,
  abortUpload: ofUpload,
  mergeUpload: async (side) => ({ ...inOrg(side), json: { upload_id: await aWholeUpload(side) } }),
  deliver: async (side) => {
    const { api, org, person } = side
    const media = await made(api.call(person, 'GET', `/api/media/${org}/${await aMedia(side)}`))
    const [, , token = '', ...path] = pathOf(media.original_url).split('/')
    return { params: { token, path: path.join('/') } }
  },
}

export const mediaLists: ListSeeds = {
  listMedia: { add: aMedia, filter: { mime_type: 'video/*' } },
  listTrash: { add: aDeletedMedia },
}
