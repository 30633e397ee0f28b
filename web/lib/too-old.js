/**
 * Says that a browser is too old which has no import maps, or lacks what the oldest supported ones have. A classic script:
 * where the modules of the page do not run, it does.
 */
const isSupported =
  'supports' in HTMLScriptElement &&
  HTMLScriptElement.supports('importmap') &&
  [].toSpliced &&
  CSS.supports('color', 'color-mix(in srgb, red, blue)')
if (!isSupported) document.getElementById('too-old').hidden = false
