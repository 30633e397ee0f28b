import type { HighlightItem } from '../../crds/highlight-render.ts'
import { EXIT } from '../../lib/contract/job-result.ts'
import { badInput, PermanentError, TransientError } from '../runtime/failure.ts'
import { ToolCrashed } from '../runtime/tool-process.ts'

/** An item that cannot be used. `detail` is the reason that the converter of a single upload would give. */
export class ItemFailed extends PermanentError {
  readonly item: string
  readonly detail: { reason: string; message: string }
  constructor(item: string, cause: PermanentError) {
    const reason = cause.code === EXIT.inputMissing ? cause.reason : 'ItemFailed'
    super(cause.code, reason, messageOf(item, cause), { cause })
    this.item = item
    this.detail = { reason: cause.reason, message: cause.message.slice(0, 512) }
  }
}

/** Work on an item failed, and another attempt may succeed. */
class ItemInterrupted extends TransientError {
  readonly item: string
  constructor(item: string, cause: TransientError) {
    super(cause.code, cause.reason, messageOf(item, cause), { cause })
    this.item = item
  }
}

const messageOf = (item: string, { message }: Error) => `Item ${item}: ${message}`.slice(0, 512)

const isNamed = (error: unknown): error is ItemFailed | ItemInterrupted =>
  error instanceof ItemFailed || error instanceof ItemInterrupted

/** The id of the item that the error names. */
export const itemOf = (error: unknown): string | undefined => (isNamed(error) ? error.item : undefined)

/** Whether the highlight could do without the item. A source that was deleted ends the highlight in any case. */
export const isBrokenItem = (error: unknown): error is ItemFailed =>
  error instanceof ItemFailed && error.code === EXIT.inputBad

/**
 * Whether the source in use may have caused the error. A full disk, a missing program and a store that cannot be reached
 * concern all items alike.
 */
export function mayBeTheirs(error: unknown): error is PermanentError | TransientError {
  if (error instanceof PermanentError) return error.code === EXIT.inputBad || error.code === EXIT.inputMissing
  return error instanceof TransientError && error.code !== EXIT.noSpace && error.reason !== 'ToolMissing'
}

/** Does something with one item; names the item when its source may be at fault. */
export async function blaming<T>(item: Pick<HighlightItem, 'id' | 'type'>, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw mayBeTheirs(error) && !isNamed(error) ? named(item, error) : error
  }
}

function named({ id, type }: Pick<HighlightItem, 'id' | 'type'>, error: PermanentError | TransientError): Error {
  // ffmpeg never reads a photo itself, only the raw picture that was made of it.
  if (type !== 'image' && error instanceof ToolCrashed && error.isFault) {
    return new ItemFailed(id, badInput('CorruptInput', 'The video cannot be decoded', { cause: error }))
  }
  return error instanceof PermanentError ? new ItemFailed(id, error) : new ItemInterrupted(id, error)
}
