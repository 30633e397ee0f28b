import { signedIn } from '../../permissions/facts.ts'
import { onCaller } from '../../permissions/rule.ts'

export const dataExportActions = {
  request: onCaller('data_export.request', 'have a copy of their own data made', signedIn),
  read: onCaller('data_export.read', 'see and download copies of their own data', signedIn),
  remove: onCaller('data_export.remove', 'remove a copy of their own data', signedIn),
} as const
