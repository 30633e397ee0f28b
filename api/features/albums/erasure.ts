import type { EraseDeps, Erased, ErasedPerson, PersonalPart } from '../../personal/part.ts'
import { eraseCaptions, nextAlbums, passAlbum } from './erasure-queries.ts'

const AT_ONCE = 500

export const albumsPart: PersonalPart = {
  personal: {
    albums: {
      holds: 'albums',
      kept: 'until they are deleted',
      columns: {
        owner_id: { person: { stays: 'in an organization without any other member, who could become the owner' } },
        title: { erase: 'replaced in albums of the person', canary: 'text' },
        description: { erase: 'removed in albums of the person', canary: 'text' },
      },
    },
    album_media: {
      holds: 'the media items of albums',
      kept: 'as long as the album and the media item',
      columns: {
        added_by: { person: { stays: 'with media items of others' } },
        caption: { erase: 'removed where the person wrote it', canary: 'text' },
        caption_by: { person: 'gone' },
      },
    },
  },
  erase: [
    {
      name: 'albums.captions',
      phase: 'texts',
      does: 'captions that the person wrote are removed, in every album',
      run: removeCaptions,
    },
    {
      name: 'albums.ownership',
      phase: 'texts',
      does: 'albums of the person in which others have media items get another owner, the longest-standing owner of the organization, and a neutral title; the others are deleted',
      run: passAlbums,
    },
  ],
}

async function removeCaptions({ db, signal }: EraseDeps, { userId }: ErasedPerson): Promise<Erased> {
  for (let captions = 0; ; ) {
    signal?.throwIfAborted()
    const some = await db.inTransaction({}, (tx) => eraseCaptions(tx, userId, AT_ONCE))
    captions += some
    if (some < AT_ONCE) return { counts: { captions } }
  }
}

async function passAlbums({ db, signal }: EraseDeps, person: ErasedPerson): Promise<Erased> {
  const counts = { passed: 0, deleted: 0, gone: 0 }
  for (const id of await db.inTransaction({}, (tx) => nextAlbums(tx, person))) {
    signal?.throwIfAborted()
    counts[await db.inTransaction({}, (tx) => passAlbum(tx, id, person.userId))] += 1
  }
  return { counts: { albums_passed_on: counts.passed, albums_deleted: counts.deleted } }
}
