import { randomInt } from 'node:crypto'

/**
 * An address of this machine that no other server has: Linux owns all of 127.0.0.0/8. Servers of different tests then
 * cannot meet, whichever ports they choose. Elsewhere only 127.0.0.1 exists.
 */
export const ownLoopback = (): string =>
  process.platform === 'linux' ? `127.${randomInt(1, 255)}.${randomInt(0, 255)}.${randomInt(1, 255)}` : '127.0.0.1'
