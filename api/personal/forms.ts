import { formatId, type Uuid } from '../../lib/contract/ids.ts'

/** How the id of a user is written, in JSON and elsewhere. */
export const formsOf = (userId: Uuid): string[] => [formatId('user', userId), userId]
