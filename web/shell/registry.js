import { Account } from '../account/account.js'
import { MyData } from '../account/my-data.js'
import { Albums } from '../albums/list.js'
import { Album } from '../albums/view.js'
import { Audit } from '../audit/audit.js'
import { Events } from '../events/list.js'
import { Event } from '../events/view.js'
import { Highlights } from '../highlights/list.js'
import { HighlightView } from '../highlights/view.js'
import { Photos } from '../library/photos.js'
import { Trash } from '../library/trash.js'
import { Mail, Outbox } from '../outbox/outbox.js'
import { Feed, Person, Timeline } from '../timeline/feed.js'

/**
 * The views by their names in the address, see shell/views.js. Each gets `{org, me, organizations, id, onFound}`; one that
 * shows media items of its own calls `onOpened(find, open)` once it has them.
 */
export const VIEWS = {
  photos: Photos,
  albums: Albums,
  album: Album,
  highlights: Highlights,
  highlight: HighlightView,
  events: Events,
  event: Event,
  trash: Trash,
  feed: Feed,
  timeline: Timeline,
  person: Person,
  'my-data': MyData,
  outbox: Outbox,
  audit: Audit,
  mail: Mail,
  'my-account': Account,
}
