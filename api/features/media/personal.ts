import type { PersonalPart } from '../../personal/part.ts'
import { mediaErasure } from './deletion/erasure.ts'

const MADE = { harmless: 'made of ids and file names of the program; the row is deleted' }

const tables: PersonalPart['personal'] = {
  media: {
    holds: 'photos and videos: what a file says about itself, and what was made of it',
    kept: 'until 30 days after the deletion',
    columns: {
      uploader_id: { person: 'gone' },
      original_filename: { erase: 'row deleted', canary: 'text' },
      mime_type: { harmless: 'a type that the program knows' },
      sha256: { erase: 'row deleted', canary: 'token' },
      live_photo_pair_id: { erase: 'row deleted', canary: 'token' },
      asset_identifier: { erase: 'row deleted', canary: 'text' },
      output_prefix: MADE,
      hls_master: MADE,
      manifest: { erase: 'row deleted', canary: 'text' },
      conversion_error: { harmless: 'what failed, without values' },
      conversion_progress: { harmless: 'numbers' },
      deleted_by: { person: { stays: 'with what the person deleted and others uploaded, until its purge' } },
      image_file: MADE,
      webp_file: MADE,
      thumb_file: MADE,
      placeholder: { erase: 'row deleted', canary: 'token' },
      conversion_batch: { harmless: 'random' },
      lease_token: { harmless: 'random' },
      leaving_with: { harmless: 'the id of an event' },
      leaving_objects: { harmless: 'a digest of names and sizes of objects' },
    },
  },
  media_months: { holds: 'how many media items an organization has of a month', kept: 'always', columns: {} },
  media_month_changes: { holds: 'changes of these numbers', kept: 'until they are added up', columns: {} },
  purged_media: {
    holds: 'ids of media items that are gone, and of uploads that became none, to look at their place again',
    kept: '8 days after the purge, or the end of the upload',
    columns: { media_id: { harmless: 'the id of a media item' } },
  },
  released_staging: {
    holds: 'ids of upload sessions that have ended, to look at the place of their chunks again',
    kept: '8 days after the end of the session',
    columns: { upload_id: { harmless: 'the id of an upload session' } },
  },
  object_intents: {
    holds: 'objects that are being written',
    kept: '3 hours',
    columns: { media_id: { harmless: 'the id of a media item' } },
  },
  uploads: {
    holds: 'upload sessions',
    kept: 'until 7 days after the end of the session, when what it stored was removed',
    columns: {
      uploader_id: { person: 'gone' },
      media_id: { harmless: 'the id of a media item' },
      multipart_id: { harmless: 'an id of the object store' },
      refusal: { harmless: 'why a merge was refused, without values; the id of a media item' },
      filename: { erase: 'row deleted', canary: 'text' },
      mime_type: { erase: 'row deleted', canary: 'text' },
      checksum_sha256: { erase: 'row deleted', canary: 'token' },
      live_photo_pair_id: { erase: 'row deleted', canary: 'token' },
      asset_identifier: { erase: 'row deleted', canary: 'text' },
      merge_lease_holder: { harmless: 'random' },
      lease_token: { harmless: 'random' },
    },
  },
  upload_chunks: {
    holds: 'which parts of a file have arrived',
    kept: 'until the end of the session, when what it stored is removed',
    columns: {
      sha256: { erase: 'row deleted', canary: 'token' },
      etag: { harmless: 'an answer of the object store' },
    },
  },
}

export const mediaPart: PersonalPart = { personal: tables, erase: mediaErasure }
