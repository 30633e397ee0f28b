import { formatId, newUuid, type Uuid } from '../../../../../lib/contract/ids.ts'
import {
  AT,
  isMember,
  madeOnce,
  type Organization,
  peopled,
  type Question,
  type Society,
  type User,
  word,
} from '../../../../support/society.ts'

interface Upload {
  id: Uuid
  wireId: string
  organization: Organization
  uploader: User
  state: 'open' | 'aborted'
  filename: string
  size: number
  chunks: number
}

export const uploadsOf = madeOnce((society): Upload[] => {
  const { draw, insert } = society
  const uploads = peopled(society).flatMap(({ organization, people }) =>
    draw.times(1, 3, (): Upload => {
      const id = newUuid()
      return {
        ...{ id, wireId: formatId('upload', id), organization, uploader: draw.one(...people), size: 300 },
        ...{ state: draw.one('open', 'open', 'aborted'), filename: word('Upload'), chunks: draw.upTo(2) },
      }
    }),
  )
  for (const { id, organization, uploader, state, filename, size, chunks } of uploads) {
    insert('uploads', {
      ...{ id, org_id: organization.id, uploader_id: uploader.id, media_id: newUuid(), state, filename },
      ...{ layout: 'staged', mime_type: 'video/mp4', file_size_bytes: size, chunk_size_bytes: 100, total_chunks: 3 },
      ...{ expires_at: '2999-01-01', absolute_expires_at: '2999-01-01', created_at: AT, version: 1 },
    })
    for (let n = 0; n < chunks; n++) {
      insert('upload_chunks', {
        ...{ org_id: organization.id, upload_id: id, chunk_index: n, size_bytes: 100, sha256: 'a', etag: 'a' },
        received_at: AT,
      })
    }
  }
  return uploads
})

/** An unfinished upload is the uploader's alone. */
export const askUploads = (society: Society, who: User): Question[] =>
  uploadsOf(society).map(({ organization, wireId, uploader, state, filename, chunks }) => ({
    ...{ route: 'getUpload', params: { org_id: organization.wireId, upload_id: wireId } },
    want:
      who === uploader && isMember(society, who, organization)
        ? { upload_id: wireId, status: state, filename, received_chunks: chunks, media_id: null }
        : undefined,
  }))
