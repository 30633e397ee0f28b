import { text } from 'node:stream/consumers'
import type { ObjectStore } from './object-store.ts'

/** The object has more bytes than its reader wants to hold. */
export class ObjectTooLarge extends Error {
  override readonly name = 'ObjectTooLarge'
}

/**
 * The text of an object. A Job that a stranger's file has taken over may have written it, so never more than `maxBytes`
 * are read, and none of a larger object: throws ObjectTooLarge.
 */
export async function readText(
  store: Pick<ObjectStore, 'get'>,
  key: string,
  { maxBytes, signal }: { maxBytes: number; signal?: AbortSignal },
): Promise<string> {
  const { info, body } = await store.get(key, { start: 0, end: maxBytes - 1 }, signal)
  if (info.size <= maxBytes) return text(body)
  body.destroy()
  throw new ObjectTooLarge(`${key} has ${info.size} bytes; at most ${maxBytes} are read`)
}
