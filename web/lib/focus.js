/**
 * Called when a button that was pressed may be gone: then the keys go on at the element that `target()` returns. A button
 * that is hidden loses the focus with the next frame.
 */
export function keepFocus(target) {
  const look = () => document.activeElement === document.body && target()?.focus({ preventScroll: true })
  requestAnimationFrame(() => requestAnimationFrame(look))
}
