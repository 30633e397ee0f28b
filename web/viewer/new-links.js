/** What fails again so soon after new links were asked for does not fail because the links have expired: they last an hour. */
const FAILED_AGAIN_MS = 60_000

/**
 * Asks for new links where the present ones may have expired, which may happen more than once in a long video. `refresh()`
 * returns what is played, with new links; `now()` is in milliseconds. `ask()` returns undefined where new links do not help.
 */
export function newLinks(refresh, now = () => performance.now()) {
  let last = Number.NEGATIVE_INFINITY
  let asking
  async function ask() {
    if (now() - last < FAILED_AGAIN_MS) return undefined
    last = now()
    return Promise.resolve(refresh?.()).catch(() => undefined)
  }
  return {
    /** Pictures and sound may fail at once. */
    ask() {
      asking ??= ask().finally(() => {
        asking = undefined
      })
      return asking
    },
  }
}
