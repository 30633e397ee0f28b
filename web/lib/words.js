const UNITS = ['B', 'KB', 'MB', 'GB', 'TB']

export function size(bytes) {
  const step = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(bytes, 1)) / 3))
  return `${(bytes / 1000 ** step).toFixed(step === 0 || bytes / 1000 ** step >= 100 ? 0 : 1)} ${UNITS[step]}`
}

export function seconds(count) {
  const whole = Math.max(1, Math.round(count))
  const minutes = Math.floor(whole / 60)
  if (minutes === 0) return `${whole} s`
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

export function clock(count) {
  const whole = Math.round(count)
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60]
  const rest = String(whole % 60).padStart(2, '0')
  return hours ? `${hours}:${String(minutes).padStart(2, '0')}:${rest}` : `${minutes}:${rest}`
}

// The API groups months by UTC, so the page shows the times of capture in UTC as well: a photo must not stand under May
// and say 1 June. Where the camera wrote no offset, this is the time on its clock.
const UTC = { timeZone: 'UTC' }

/** `2026-05` as `May 2026`. */
export const monthName = (month) =>
  new Date(`${month}-01T00:00:00Z`).toLocaleDateString([], { ...UTC, month: 'long', year: 'numeric' })

const DAY = { day: 'numeric', month: 'long', year: 'numeric' }
export const day = (iso) => new Date(iso).toLocaleDateString([], { ...DAY, ...UTC })

/** The day of a deadline or of something that a person did, by the viewer's clock. */
export const dayHere = (iso, { locale = [], timeZone } = {}) =>
  new Date(iso).toLocaleDateString(locale, { ...DAY, timeZone })

/** The same with its time, for what ends soon. */
export const timeHere = (iso, { locale = [], timeZone } = {}) =>
  new Date(iso).toLocaleString(locale, { ...DAY, hour: 'numeric', minute: '2-digit', timeZone })

const MOMENT = {
  ...{ weekday: 'short', day: 'numeric', month: 'short', year: 'numeric' },
  ...{ hour: 'numeric', minute: '2-digit' },
}
/** When it was taken; where the file does not say, when it was added, by the viewer's clock. */
export const momentOf = (m) =>
  m.captured_at
    ? new Date(m.captured_at).toLocaleString([], { ...MOMENT, ...UTC })
    : new Date(m.created_at).toLocaleString([], MOMENT)

/** A hue for avatars and placeholders: always the same for the same text. */
export function hue(text) {
  let sum = 7
  for (const c of text) sum = (sum * 31 + c.codePointAt(0)) % 3600
  return sum % 360
}

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString()} ${count === 1 ? one : many}`

const DAY_MS = 86_400_000

/** How long a deleted media item can still be restored. Rounded up: on the last day there is still one day. */
export function daysLeft(purgeAt, now = Date.now()) {
  if (purgeAt === null) return ''
  const days = Math.ceil((Date.parse(purgeAt) - now) / DAY_MS)
  return days < 1 ? 'Ending today' : `${plural(days, 'day')} left`
}
