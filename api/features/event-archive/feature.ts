import type { Feature } from '../../feature.ts'

/** What becomes of archived events: the cold tier, the purge. */
export const eventsInArchive: Feature = {
  personal: {},
  erase: [],
  tags: {},
  routes: () => [],
  actions: [],
  export: { nothing: 'works on what other features keep' },
}
