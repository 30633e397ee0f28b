import { html } from '../lib/html.js'
import { Icon } from '../lib/icons.js'
import { NAMELESS } from '../lib/names.js'
import { Avatar, More, Problem } from '../lib/parts.js'
import { groupsOf, isRemovable } from './words.js'

/** Who takes part in an event, in groups. `onRemove`: for a viewer who may remove others. */
export function Participants({ list, event, me, onRemove }) {
  return html`
    <section class="panel" aria-labelledby="participants-title">
      <h2 id="participants-title">Participants ${list.items && html`<span class="count">${list.first.total}</span>`}</h2>
      ${!list.items && html`<${Problem} error=${list.error} />`}
      <div class="participant-groups">
        ${groupsOf(list.items ?? [], event).map(
          ({ status, title, people }) => html`
            <section key=${status} class="participant-group" data-status=${status}>
              <h3>${title}</h3>
              <ul class="people">
                ${people.map((person) => html`<${Person} key=${person.user_id} person=${person} isMe=${person.user_id === me.user_id} isHost=${person.user_id === event.owner_id} onRemove=${isRemovable(person, event) && onRemove} />`)}
              </ul>
            </section>`,
        )}
      </div>
      <${More} list=${list} />
    </section>`
}

const Person = ({ person, person: { display_name: name }, isMe, isHost, onRemove }) => html`
  <li class=${`person ${name ? '' : 'nameless'}`}>
    <${Avatar} name=${name ?? '?'} />
    <span class="person-words">
      <bdi class="name">${name ?? NAMELESS}${isMe && ' (you)'}</bdi>
      ${isHost && html`<span class="muted small">Host</span>`}
    </span>
    ${onRemove && html`<button class="icon-button" type="button" aria-label=${`Remove ${name ?? NAMELESS}`} onClick=${() => onRemove(person)}><${Icon} name="close" size=${18} /></button>`}
  </li>`
