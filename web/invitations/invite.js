import { call } from '../lib/api.js'
import { openDialog } from '../lib/dialogs.js'
import { Field, FormDialog, useForm } from '../lib/form.js'
import { html, useEffect, useState } from '../lib/html.js'
import { uuidOf } from '../lib/ids.js'
import { NAMELESS } from '../lib/names.js'
import { Avatar, Problem } from '../lib/parts.js'
import { Link } from './link.js'
import { partsIn } from './words.js'

const CHANNELS = [
  ['uuid', 'Member'],
  ['email', 'E-mail'],
  ['phone_number', 'Phone'],
]
const MISSING = { email: 'Enter an e-mail address.', phone_number: 'Enter a phone number.' }
const WRONG = {
  email: 'is not an e-mail address',
  phone_number: 'is not a number with the code of its country, like +49 170 1234567',
}

const nameOf = ({ display_name }) => display_name ?? NAMELESS

/** Asks whom to invite to an event, and shows the link that was made. */
export function inviteTo(given) {
  openDialog((close) => html`<${Invite} ...${given} onClose=${close} />`)
}

function Invite({ event, participants, onInvited, onClose, ...rest }) {
  const [made, setMade] = useState()
  const [invited, setInvited] = useState(participants)
  if (made) return html`<${Link} ...${made} event=${event} onAnother=${() => setMade(undefined)} onClose=${onClose} />`
  const onMade = (link, { name, user_id }) => {
    setMade({ made: link, name })
    if (user_id) setInvited([...invited, { user_id, status: 'invited' }])
    void onInvited()
  }
  return html`<${Form} ...${rest} participants=${invited} onMade=${onMade} onClose=${onClose} />`
}

function Form({ org, path, me, participants, onMade, onClose }) {
  const [channel, setChannel] = useState('uuid')
  const [member, setMember] = useState()
  const [query, setQuery] = useState('')
  const form = useForm({
    initial: { email: '', phone_number: '', message: '' },
    check: (values) => (MISSING[channel] && !values[channel].trim() ? { [channel]: MISSING[channel] } : {}),
    async save(values, keyFor) {
      if (channel === 'uuid' && !member) throw new Error('Choose a member.')
      const typed = channel === 'uuid' ? member.user_id : values[channel].trim()
      const value = channel === 'phone_number' ? typed.replace(/[\s()/.-]/g, '') : typed
      const message = values.message.trim()
      const body = { [channel]: value, ...(message && { message }) }
      const made = await call('POST', `${path}/invitations`, body, keyFor([path, body])).catch(inOurWords)
      onMade(made, channel === 'uuid' ? { name: nameOf(member), user_id: member.user_id } : { name: value })
    },
  })
  const switchTo = (next) => {
    setChannel(next)
    form.setProblem(undefined)
  }
  const choose = (found) => {
    setMember(found)
    form.setProblem(undefined)
  }
  return html`
    <${FormDialog} class="invite" title="Invite" form=${form} label="Make the link" onClose=${onClose}>
      <p class="muted small">The page of the link tells guests what accepting makes of them: a member of the group, who sees its events and shared albums, unless the service lets only members accept.</p>
      <div class="segments" role="radiogroup" aria-label="Invite by">
        ${CHANNELS.map(
          ([name, text]) => html`
            <label key=${name}><input type="radio" name="channel" checked=${name === channel} onChange=${() => switchTo(name)} /><span>${text}</span></label>`,
        )}
      </div>
      ${
        channel === 'uuid' &&
        html`
          <label class="field">Search the members
            <input type="search" maxlength="100" autocomplete="off" placeholder="Part of a name" value=${query} onInput=${(event) => setQuery(event.target.value)} />
          </label>
          <${Members} org=${org} query=${query.trim()} parts=${partsIn(participants)} me=${me} chosen=${member} onChoose=${choose} />`
      }
      ${channel === 'email' && html`<${Field} form=${form} name="email" label="E-mail address" type="email" maxlength="254" placeholder="bob@example.org" />`}
      ${channel === 'phone_number' && html`<${Field} form=${form} name="phone_number" label="Phone number" type="tel" placeholder="+49 170 1234567" />`}
      <${Field} form=${form} name="message" label="Message" hint="optional" rows="2" maxlength="1000" dir="auto" />
    <//>`
}

function inOurWords(error) {
  for (const detail of error.details ?? []) detail.issue = WRONG[detail.field.replace('body.', '')] ?? detail.issue
  throw error
}

/** Members whose name contains the text; those who joined last where there is none. */
function Members({ org, query, parts, me, chosen, onChoose }) {
  const [found, setFound] = useState({})
  useEffect(() => {
    let isOld = false
    const search = async () => {
      const asked = new URLSearchParams({ limit: '20', ...(query && { query }) })
      const answer = await call('GET', `/api/organizations/${org.org_id}/members?${asked}`).catch((error) => ({
        error,
      }))
      if (!isOld) setFound(answer)
    }
    const timer = setTimeout(search, query && 200)
    return () => {
      isOld = true
      clearTimeout(timer)
    }
  }, [org.org_id, query])
  return html`
    <ul class="members" aria-label="Members">
      ${found.members?.map(
        (member) => html`
          <li key=${member.user_id}>
            <button class="account" type="button" aria-pressed=${String(member.user_id === chosen?.user_id)} onClick=${() => onChoose(member)}>
              <${Avatar} name=${member.display_name ?? '?'} />
              <span class="person-words">
                <strong dir="auto">${nameOf(member)}${uuidOf(member.user_id) === uuidOf(me.user_id) && ' (you)'}</strong>
                <span class="muted small">${parts.get(uuidOf(member.user_id)) ?? `Joined ${member.joined_at.slice(0, 4)}`}</span>
              </span>
            </button>
          </li>`,
      )}
    </ul>
    <${Problem} error=${found.error} />
    ${found.members?.length === 0 && html`<p class="muted small">No member is called that.</p>`}
    <p class="visually-hidden" role="status">${chosen && `${nameOf(chosen)} will be invited.`}</p>`
}
