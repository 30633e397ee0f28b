/** Hours of the day, `HH:MM` in UTC. `to` is no longer part of it; one before `from` is of the next day. */
export interface Window {
  from: string
  to: string
}

const DAY_MS = 86_400_000
const timeOf = (text: string): number => {
  const [hours = 0, minutes = 0] = text.split(':').map(Number)
  return (hours * 60 + minutes) * 60_000
}
const sinceMidnight = (at: Date) => at.getTime() % DAY_MS

export function isOpen({ from, to }: Window, at: Date): boolean {
  const time = sinceMidnight(at)
  return timeOf(from) < timeOf(to)
    ? time >= timeOf(from) && time < timeOf(to)
    : time >= timeOf(from) || time < timeOf(to)
}

/** The first moment from this one on that is in the window. */
export const opening = (window: Window, at: Date): Date => (isOpen(window, at) ? at : following(window.from, at))

/** The end of the window that this moment, which is in it, belongs to. */
export const closing = (window: Window, at: Date): Date => following(window.to, at)

/** The next moment after this one at that time of the day. */
function following(text: string, at: Date): Date {
  const midnight = at.getTime() - sinceMidnight(at)
  const today = midnight + timeOf(text)
  return new Date(today > at.getTime() ? today : today + DAY_MS)
}
