import type { Uuid } from '../lib/contract/ids.ts'
import type { Clock } from '../lib/runtime/clock.ts'
import type { Log } from '../lib/runtime/log.ts'
import type { ObjectStore } from '../lib/runtime/object-store/object-store.ts'
import type { PersonalData } from './audit/personal-data.ts'
import type { Refusals } from './audit/refusals.ts'
import type { ApiConfig } from './config.ts'
import type { Database } from './db/db.ts'
import type { Notifications } from './db/notification-listener.ts'
import type { ActionsOn } from './permissions/catalog.ts'
import type { Cursors } from './requests/cursor.ts'

/** Signed delivery links. */
export interface Links {
  /** The absolute signed URL that delivers this object. */
  url(key: string): string
  /** A link to the same object that is as new as those of `url`. */
  renewed(link: string): string
  /** The same of one derivative of a media item, for as long as that is in the trash. */
  trashed(key: string): string
  /** Minimum lifetime of a link in seconds, as reported to clients. */
  readonly expiresIn: number
  /** The same of one file of a download, as an attachment, for as long as the download is there. */
  download(key: string): string
  readonly downloadExpiresIn: number
}

/** The dependencies of the features. */
export interface ApiDeps {
  db: Database
  store: ObjectStore
  log: Log
  clock: Clock
  links: Links
  cursors: Cursors
  refusals: Refusals
  /** Decrypts what audit entries say about people. */
  personalData: PersonalData
  /** Of the database, to this process. */
  notifications: Notifications
  /** After the commit that ended all sign-ins of this user: the next request and open event streams see it on this replica. */
  recheckSignIns(userId: Uuid): void
  /** The actions of all features on one kind of resource: for `can` in answers. */
  actionsOn: ActionsOn
  config: ApiConfig
}
