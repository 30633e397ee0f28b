import { signedIn } from '../../permissions/facts.ts'
import { onCaller } from '../../permissions/rule.ts'

export const notificationActions = {
  readPreferences: onCaller('notification.read_preferences', 'see which notifications they get', signedIn),
  savePreferences: onCaller('notification.save_preferences', 'choose which notifications they get', signedIn),
  readDevices: onCaller('notification.read_devices', 'see their devices', signedIn),
  saveDevices: onCaller('notification.save_devices', 'register and remove their devices', signedIn),
} as const
