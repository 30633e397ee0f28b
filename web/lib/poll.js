import { onConnection } from './connection.js'
import { useCallback, useEffect, useMemo, useRef, useState } from './html.js'

/** How soon a view looks again after a look that failed: a refusal may pass, a missing connection is tried more often. */
const AFTER_ERROR_MS = 8000
const OFFLINE_MS = 2500

function pauseAfterError({ retryAfter, code }) {
  if (retryAfter) return retryAfter * 1000
  return code === 'OFFLINE' ? OFFLINE_MS : AFTER_ERROR_MS
}

/**
 * Calls `look()` repeatedly, never twice at once, and not while the page is hidden: then it looks when it is shown again.
 * `every` is the pause in milliseconds, or a function of what was last found; 0 looks once, and again when the page is
 * shown. `found(data)` and `failed(error)` are called with the newest look only. Returns `{look, changed, end}`;
 * `changed()` drops the answer that is on its way, because it is older than what the person has just changed.
 */
export function poll({ look, every, found, failed }) {
  let turn = 0
  let timer
  let isEnded = false

  const pauseAfter = (data) => (typeof every === 'function' ? every(data) : every)

  async function now() {
    clearTimeout(timer)
    const mine = ++turn
    let pause
    try {
      const data = await look()
      if (isEnded || mine !== turn) return
      found(data)
      pause = pauseAfter(data)
    } catch (error) {
      if (isEnded || mine !== turn) return
      failed(error)
      pause = pauseAfterError(error)
    }
    schedule(pause)
  }

  function schedule(pause) {
    clearTimeout(timer)
    if (pause && !isEnded && !document.hidden) timer = setTimeout(now, pause)
  }

  const shown = () => (document.hidden ? clearTimeout(timer) : void now())
  document.addEventListener('visibilitychange', shown)
  const endConnection = onConnection((isUp) => isUp && void now())
  void now()
  return {
    look: now,
    changed() {
      turn++
      schedule(typeof every === 'number' ? every || AFTER_ERROR_MS : 1000)
    },
    end() {
      isEnded = true
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', shown)
      endConnection()
    },
  }
}

/**
 * What `look()` returns, kept up to date while the component is shown: `{data, error, reload, set}`. `deps` name what it
 * is about: when one changes, it begins anew. `data` stays when a later look fails. `set(data)` or `set((data) => …)`
 * shows what a change has returned, at once; `reload()` looks now. Too many requests are no error: the next look comes. Nor
 * is a missing connection, of which the frame tells: the view waits for it.
 */
export function usePolled(look, deps, every = 8000) {
  const [state, setState] = useState({})
  const latest = useRef()
  latest.current = { look, every }
  const running = useRef()
  useEffect(() => {
    setState({})
    running.current = poll({
      look: () => latest.current.look(),
      every: (data) => (typeof latest.current.every === 'function' ? latest.current.every(data) : latest.current.every),
      found: (data) => setState({ data }),
      failed: (error) =>
        error.status !== 429 &&
        setState((before) => ({ ...before, error: error.code === 'OFFLINE' ? undefined : error })),
    })
    return running.current.end
  }, deps)
  const reload = useCallback(() => running.current?.look(), [])
  const set = useCallback((change) => {
    running.current?.changed()
    setState(({ data }) => ({ data: typeof change === 'function' ? change(data) : change }))
  }, [])
  return useMemo(() => ({ ...state, reload, set }), [state])
}
