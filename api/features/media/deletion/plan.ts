/** How long a deleted media item can be restored, where no policy says otherwise. */
export const DEFAULT_RESTORE = 'P30D'
/** The purge begins a little later, so that it never meets a restore in the last moment. */
export const PURGE_GRACE = 'PT1H'

export interface DeletionSeen {
  deletedAt: Date | null
  purgingAt: Date | null
  /** By the database's clock. */
  isPastRestore: boolean
}

/** `lost`: deleted, and too late to restore. A media item that is gone has no row. */
export type DeletionState = 'visible' | 'in-trash' | 'lost'

export function deletionStateOf({ deletedAt, purgingAt, isPastRestore }: DeletionSeen): DeletionState {
  if (deletedAt === null) return 'visible'
  return purgingAt !== null || isPastRestore ? 'lost' : 'in-trash'
}

/** What a request to delete does. A repeat changes nothing, in particular not who may restore. */
export const DELETE_MOVES = { visible: 'delete', 'in-trash': 'nothing', lost: 'not-found' } as const

/** What a request to restore does. */
export const RESTORE_MOVES = { visible: 'nothing', 'in-trash': 'restore', lost: 'refuse' } as const
