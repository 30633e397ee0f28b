import type { Seeds } from './seed.ts'

export const timelineSeeds: Seeds = {
  followFeed: ({ person }) => ({ as: person }),
}
