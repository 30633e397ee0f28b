import { useCallback, useLayoutEffect, useRef, useState } from './html.js'

/** How far the window moves before what is near it is drawn anew. */
export const STEP = 128

/**
 * The width of a long list and where the window is in it, in steps: `{width, top, measure}`. `measure()` looks at once.
 * `scroller` is a ref to what scrolls, the window by default.
 */
export function useView(root, scroller) {
  const [view, setView] = useState({ width: 0, top: 0 })
  const frame = useRef()
  const measure = useCallback(() => {
    frame.current = undefined
    if (!root.current) return
    const width = root.current.clientWidth
    const top = Math.floor(-root.current.getBoundingClientRect().top / STEP) * STEP
    setView((now) => (now.width === width && now.top === top ? now : { width, top }))
  }, [])
  useLayoutEffect(() => {
    const soon = () => {
      frame.current ??= requestAnimationFrame(measure)
    }
    measure()
    const scrolls = scroller?.current ?? globalThis
    const resized = new ResizeObserver(soon)
    resized.observe(root.current)
    scrolls.addEventListener('scroll', soon, { passive: true })
    addEventListener('resize', soon)
    return () => {
      cancelAnimationFrame(frame.current)
      resized.disconnect()
      scrolls.removeEventListener('scroll', soon)
      removeEventListener('resize', soon)
    }
  }, [])
  return { ...view, measure }
}
