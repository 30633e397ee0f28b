import { call } from '../lib/api.js'
import { Dialog, openDialog } from '../lib/dialogs.js'
import { html, useState } from '../lib/html.js'
import { Problem, Wait } from '../lib/parts.js'
import { usePolled } from '../lib/poll.js'
import { inWords } from '../lib/refusals.js'
import { announce } from '../lib/toast.js'
import { whenUsed } from './words.js'

/** Where the person is signed in, with what ends that. */
export const showDevices = () => openDialog((close) => html`<${Devices} onClose=${close} />`)

const WORDS = {
  SESSION_NOT_REVOCABLE: 'Here you can only sign out on all devices at once. Sign out does that.',
}

function Devices({ onClose }) {
  const list = usePolled(() => call('GET', '/api/auth/sessions'), [], 0)
  const [problem, setProblem] = useState()
  const [busy, setBusy] = useState()
  const sessions = list.data?.sessions
  const others = sessions?.filter(({ current }) => !current) ?? []

  /** `ended` are the sessions that the request ends, `what` is said of it. */
  async function end(path, ended, what) {
    setBusy(path)
    setProblem(undefined)
    try {
      await call('DELETE', path)
      list.set({ sessions: sessions.filter((one) => !ended.includes(one)) })
      announce(what)
    } catch (error) {
      setProblem(inWords(error, WORDS))
    } finally {
      setBusy(undefined)
    }
  }

  const endOne = (one) =>
    end(`/api/auth/sessions/${one.session_id}`, [one], `Signed out on ${one.device_name ?? 'the device'}`)
  return html`
    <${Dialog} title="Signed in on" class="devices" onClose=${onClose}>
      ${!sessions && (list.error ? html`<${Problem} error=${list.error} />` : html`<${Wait} />`)}
      <ul class="device-list">
        ${sessions?.map((one) => html`<${Device} key=${one.session_id} device=${one} isBusy=${busy !== undefined} onEnd=${() => endOne(one)} />`)}
      </ul>
      <${Problem} text=${problem} />
      <p class="small"><a href="#my-data" onClick=${onClose}>Your data and your account</a></p>
      <footer class="sheet-foot">
        ${others.length > 0 && html`<button class="button" type="button" disabled=${busy !== undefined} onClick=${() => end('/api/auth/sessions', others, 'Signed out everywhere else')}>Sign out everywhere else</button>`}
        <button class="button primary" type="button" onClick=${onClose}>Done</button>
      </footer>
    <//>`
}

function Device({ device, isBusy, onEnd }) {
  const { device_name: name, ip_address: ip, current } = device
  return html`
    <li class="device">
      <span class="device-words">
        <bdi class="name">${name ?? 'A device without a name'}</bdi>
        <span class="muted small">${current ? 'This device' : whenUsed(device.last_used_at)}${ip && html` · <bdi>${ip}</bdi>`}</span>
      </span>
      ${!current && html`<button class="button" type="button" disabled=${isBusy} aria-label=${`Sign out on ${name ?? 'a device without a name'}`} onClick=${onEnd}>Sign out</button>`}
    </li>`
}
