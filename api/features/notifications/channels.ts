import type { ChannelDeps, ChannelPart } from './channel.ts'
import { emailPart } from './email/channel.ts'
import { pushPart } from './push/channel.ts'
import type { NotificationSettings } from './settings.ts'
import { webhookPart } from './webhook/channel.ts'

/** All channels. Another one is another factory here, and its settings in `settings.ts`. */
export const CHANNELS: readonly ((deps: ChannelDeps<NotificationSettings>) => ChannelPart)[] = [
  (deps) => emailPart(deps),
  (deps) => pushPart(deps),
  (deps) => webhookPart(deps),
]
