import { signedIn } from '../../permissions/facts.ts'
import { onCaller } from '../../permissions/rule.ts'

export const notificationActions = {
  readPreferences: onCaller('notification.read_preferences', 'see which notifications they get', signedIn),
  savePreferences: onCaller('notification.save_preferences', 'choose which notifications they get', signedIn),
} as const
