import { call } from '../lib/api.js'
import { html, useState } from '../lib/html.js'
import { More, Problem } from '../lib/parts.js'
import { may } from '../lib/permissions.js'
import { inWords } from '../lib/refusals.js'
import { toast } from '../lib/toast.js'
import { showLink } from './link.js'
import { invitationState, inviteeOf } from './words.js'

/** The invitations to an event, for those who may see them. `look` brings the event and its lists up to date. */
export function Invitations({ list, event, participants, look }) {
  const { items } = list
  const names = new Map(participants.map(({ user_id, display_name }) => [user_id, display_name]))
  return html`
    <section class="panel" aria-labelledby="invitations-title">
      <h2 id="invitations-title">Invitations ${items && html`<span class="count">${items.length}${list.hasMore && '+'}</span>`}</h2>
      <p class="muted small">Only the host and the administrators see this list.</p>
      ${!items && list.error?.status !== 404 && html`<${Problem} error=${list.error} />`}
      ${items?.length === 0 && html`<p class="muted none">No invitations yet.</p>`}
      <ul class="invitation-list" aria-label="Invitations">
        ${items?.map((invitation) => html`<${Row} key=${invitation.invitation_id} invitation=${invitation} event=${event} names=${names} look=${look} />`)}
      </ul>
      <${More} list=${list} />
    </section>`
}

const REISSUE = { INVALID_STATE_TRANSITION: 'This invitation was answered meanwhile.' }

function Row({ invitation, event, names, look }) {
  const [isBusy, setBusy] = useState(false)
  const { status, message, response_message: reply } = invitation
  const name = inviteeOf(invitation)
  async function renew() {
    setBusy(true)
    try {
      showLink({ made: await call('POST', `/api/invitations/${invitation.invitation_id}/reissue`), name, event })
    } catch (error) {
      toast(inWords(error, REISSUE))
    }
    setBusy(false)
    void look()
  }
  return html`
    <li class="invitation-row" data-status=${status}>
      <div class="person-words">
        <bdi class="name">${name}</bdi>
        <span class="muted small text">${invitationState(invitation, event, Date.now(), names)}</span>
        ${message && html`<${Said} class="sent" who="Message" text=${message} />`}
        ${reply && html`<${Said} class="said" who="Answer" text=${reply} />`}
      </div>
      ${may(invitation, 'invitation.reissue') && html`<button class="button" type="button" disabled=${isBusy} aria-label=${`New link for ${name}`} onClick=${renew}>New link</button>`}
    </li>`
}

const Said = ({ class: name, who, text }) =>
  html`<p class="small quoted"><span class="muted">${who}: </span><q class=${name} dir="auto">${text}</q></p>`
