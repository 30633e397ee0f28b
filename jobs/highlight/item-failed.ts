import { EXIT } from '../../lib/contract/job-result.ts'
import { PermanentError } from '../runtime/failure.ts'

/** An item that cannot be used. `detail` is the reason that the converter of a single upload would give. */
export class ItemFailed extends PermanentError {
  readonly item: string
  readonly detail: { reason: string; message: string }
  constructor(item: string, cause: PermanentError) {
    const reason = cause.code === EXIT.inputMissing ? cause.reason : 'ItemFailed'
    super(cause.code, reason, `Item ${item}: ${cause.message}`.slice(0, 512), { cause })
    this.item = item
    this.detail = { reason: cause.reason, message: cause.message.slice(0, 512) }
  }
}

/** Whether the film could do without the item. A source that was deleted ends the film in any case. */
export const isBrokenItem = (error: unknown): error is ItemFailed =>
  error instanceof ItemFailed && error.code === EXIT.inputBad

/** Does something with one item; names the item when its source turns out to be at fault. */
export async function blaming<T>(item: { id: string }, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const isTheirs =
      error instanceof PermanentError && (error.code === EXIT.inputBad || error.code === EXIT.inputMissing)
    throw isTheirs && !(error instanceof ItemFailed) ? new ItemFailed(item.id, error) : error
  }
}
