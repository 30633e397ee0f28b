const UNITS = ['B', 'KB', 'MB', 'GB', 'TB']

export function size(bytes) {
  const step = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(bytes, 1)) / 3))
  return `${(bytes / 1000 ** step).toFixed(step === 0 || bytes / 1000 ** step >= 100 ? 0 : 1)} ${UNITS[step]}`
}

export function seconds(count) {
  if (count < 60) return `${Math.max(1, Math.round(count))} s`
  const minutes = Math.floor(count / 60)
  return minutes < 60 ? `${minutes} min ${Math.round(count % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

export const clock = (count) =>
  `${Math.floor(count / 60)}:${String(Math.floor(count % 60)).padStart(2, '0')}`

export function day(iso) {
  const then = new Date(iso)
  const today = new Date().toDateString() === then.toDateString()
  return today
    ? `Today, ${then.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' })}`
    : then.toLocaleDateString([], { day: 'numeric', month: 'long', year: 'numeric' })
}

/** A hue for avatars and placeholders: always the same for the same text. */
export function hue(text) {
  let sum = 7
  for (const c of text) sum = (sum * 31 + c.codePointAt(0)) % 3600
  return sum % 360
}

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`
