const MOMENT = { day: 'numeric', month: 'short', hour: 'numeric', minute: '2-digit' }

/** When a device was last used, by the viewer's clock. */
export function whenUsed(iso, now = Date.now()) {
  const minutes = Math.floor((now - Date.parse(iso)) / 60_000)
  return minutes < 5 ? 'Used now' : `Last used ${new Date(iso).toLocaleString([], MOMENT)}`
}
