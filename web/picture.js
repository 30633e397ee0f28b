import { thumbHashToRGBA } from '/thumbhash.js'

/** Draws the blurred picture of a thumbhash. False when there is none, or none that can be read. */
export function drawPlaceholder(canvas, hash) {
  if (!hash || canvas.dataset.hash === hash) return Boolean(hash)
  try {
    const { w, h, rgba } = thumbHashToRGBA(Uint8Array.from(atob(hash), (c) => c.charCodeAt(0)))
    Object.assign(canvas, { width: w, height: h })
    canvas.getContext('2d').putImageData(new ImageData(new Uint8ClampedArray(rgba), w, h), 0, 0)
    canvas.dataset.hash = hash
    return true
  } catch {
    return false
  }
}
