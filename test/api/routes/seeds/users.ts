import type { Seeds } from './seed.ts'

export const userSeeds: Seeds = {
  getMe: ({ person }) => ({ as: person }),
}
