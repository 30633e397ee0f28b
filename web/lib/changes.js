import { callIfChanged, openStream } from './api.js'
import { onConnection } from './connection.js'
import { follow } from './follow.js'
import { useEffect, useRef } from './html.js'

/**
 * Changes of the feeds of the person. One tab of a browser follows them for all: the one that holds a lock. It tells the
 * others, so that a browser has one connection however many tabs are open.
 */
const NAME = 'keepsake.changes'
const FEED = '/api/users/me/feed'

const listeners = new Set()
/** The position of the last message, of whichever tab: the next one that follows goes on from there. */
let lastId
let etag
let ending
let channel

const tell = (orgIds) => {
  for (const changed of [...listeners]) changed(orgIds)
}

function changedHere(orgIds, id) {
  lastId = id ?? lastId
  channel?.postMessage({ orgIds, id })
  tell(orgIds)
}

/** The API gives the place of a device's stream to its next one. Without locks, every tab is one. */
function deviceId() {
  if (!navigator.locks) return crypto.randomUUID()
  const known = localStorage.getItem(NAME) ?? crypto.randomUUID()
  localStorage.setItem(NAME, known)
  return known
}

/** Ends early when the connection is back. */
const pause = (ms, signal) =>
  new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      endConnection()
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    const endConnection = onConnection((isUp) => isUp && end())
    signal.addEventListener('abort', end)
    if (signal.aborted) end()
  })

const does = {
  open: (id, signal) =>
    openStream(`${FEED}/changes?${new URLSearchParams({ device_id: deviceId() })}`, {
      headers: id ? { 'Last-Event-ID': id } : {},
      signal,
    }),
  async poll() {
    const answer = await callIfChanged(`${FEED}?limit=1`, etag)
    etag = answer.etag
    return Boolean(answer.data)
  },
  pause,
  changed: changedHere,
}

const lead = (signal) => follow(does, { signal, lastId })

/** A page that is hidden follows nothing; when it is shown again, it goes on from where it was. */
function begin() {
  if (ending || listeners.size === 0 || document.hidden) return
  ending = new AbortController()
  const { signal } = ending
  channel ??= openChannel()
  if (navigator.locks) navigator.locks.request(NAME, { signal }, () => lead(signal)).catch(() => {})
  else void lead(signal)
}

function openChannel() {
  const opened = new BroadcastChannel(NAME)
  opened.onmessage = ({ data: { orgIds, id } }) => {
    lastId = id ?? lastId
    tell(orgIds)
  }
  return opened
}

function end() {
  ending?.abort()
  ending = undefined
}

const shown = () => (document.hidden ? end() : begin())

/** Calls `changed(orgIds)` with the ids of the groups whose feed has changed; without them, any may have. Returns its end. */
function onChanges(changed) {
  if (listeners.size === 0) document.addEventListener('visibilitychange', shown)
  listeners.add(changed)
  begin()
  return () => {
    listeners.delete(changed)
    if (listeners.size > 0) return
    document.removeEventListener('visibilitychange', shown)
    end()
  }
}

/** Positions are of a person: the next one who signs in begins without. */
export function forgetChanges() {
  end()
  lastId = undefined
  etag = undefined
}

/** Calls `changed(orgIds)`, as `onChanges` does, while the component is shown. */
export function useChanges(changed) {
  const latest = useRef()
  latest.current = changed
  useEffect(() => onChanges((orgIds) => latest.current(orgIds)), [])
}
