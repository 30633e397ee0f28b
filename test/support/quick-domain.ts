import { AsyncLocalStorage, AsyncResource, executionAsyncResource } from 'node:async_hooks'

/**
 * In place of the package async-hook-domain, by which tap learns which test an error belongs to that nothing caught
 * (quick-imports.ts). The package follows every promise with a hook, a third of the CPU of a test of the API; an
 * AsyncLocalStorage knows the same from Node, which carries it along anyway.
 */
type OnError = (error: unknown, event: string) => void

const current = new AsyncLocalStorage<Domain>()
const living = new Set<Domain>()

export class Domain {
  readonly onerror: OnError
  readonly #parent: Domain | undefined

  /** Of all that runs in the present resource, as which tap runs a test. */
  constructor(onerror: OnError) {
    this.onerror = onerror
    this.#parent = current.getStore()
    const resource = executionAsyncResource()
    if (resource instanceof AsyncResource) runInside(resource, this)
    if (living.size === 0 && !lost) listen()
    living.add(this)
  }

  destroy(): void {
    if (living.delete(this) && living.size === 0 && !lost) stopListening()
  }

  /** Itself, or the nearest around it that still is. */
  nearest(): Domain | undefined {
    return living.has(this) ? this : this.#parent?.nearest()
  }
}

function runInside(resource: AsyncResource, domain: Domain): void {
  const run = resource.runInAsyncScope
  const inside: typeof run = (work, ...args) =>
    Reflect.apply(run, resource, [
      (...given: unknown[]) => current.run(domain, () => Reflect.apply(work, args[0], given)),
      ...args,
    ])
  resource.runInAsyncScope = inside
}

let lost: ((error: unknown) => boolean) | undefined
/** From now on asks about an error of tests that have all ended: of an earlier file in the process (shared-process.ts). */
export function whenLost(handler: (error: unknown) => boolean): void {
  lost = handler
  if (living.size === 0) listen()
}

/** Whether a domain has taken the error. */
function handle(error: unknown, event: string): boolean {
  // Whatever else handles errors comes first.
  if (process.hasUncaughtExceptionCaptureCallback() || process.listenerCount('uncaughtException') > 0) return false
  const of = current.getStore()
  if (of && !of.nearest() && lost?.(error)) return true
  // What runs outside of all tests is of the first, which is that of the file.
  const domain = of?.nearest() ?? living.values().next().value
  domain?.onerror(error, event)
  return domain !== undefined
}

/** Only a capture callback keeps the process alive, and one that is set now is asked for this very error. */
function onException(error: unknown, event: string): void {
  if (!handle(error, event)) return
  process.setUncaughtExceptionCaptureCallback(() => process.setUncaughtExceptionCaptureCallback(null))
}

const emit = process.emit

/** A listener would count as one of the test's own, which changes what Node does with a rejection. */
function emitOrHandle(this: NodeJS.Process, event: string, ...args: unknown[]): boolean {
  if (event === 'unhandledRejection' && process.listenerCount(event) === 0) return handle(args[0], event)
  return Reflect.apply(emit, process, [event, ...args]) as boolean
}

function listen(): void {
  process.on('uncaughtExceptionMonitor', onException)
  process.emit = emitOrHandle as typeof process.emit
}

function stopListening(): void {
  process.off('uncaughtExceptionMonitor', onException)
  process.emit = emit
}
