import { Archive, useArchives } from '../lib/archives.js'
import { html } from '../lib/html.js'
import { Intro, Problem, Wait } from '../lib/parts.js'

const PATH = '/gdpr/export'
const WORDS =
  'A copy of everything that is yours: the originals that you uploaded, and what you wrote, own and take part in. You can look at it without Keepsake.'

/** What a person has here, to take away. */
export function MyData() {
  const own = useArchives(PATH)
  const events = useArchives('/api/users/me/event-exports')
  const request = () => own.request(PATH, 'Your data is being put together')
  return html`
    <section class="view-my-data" aria-label="Your data">
      <${Intro} title="Your data" text=${WORDS}>
        <button class="button primary" type="button" disabled=${own.isBusy || !own.isKnown || own.isRunning} onClick=${request}>Download my data</button>
      <//>
      <${Problem} class="banner" error=${own.error ?? events.error} />
      ${!own.isKnown && !own.error && html`<${Wait} />`}
      ${
        own.exports.length > 0 &&
        html`
          <h2 class="visually-hidden">Copies of your data</h2>
          <ul class="copies" aria-label="Copies of your data">${own.exports.map((one) => html`<${Archive} key=${one.export_id} one=${one} first="The first one has what you wrote and own." isBusy=${own.isBusy} onRemove=${() => own.remove(one, 'The copy was removed')} />`)}</ul>`
      }
      ${
        events.exports.length > 0 &&
        html`
          <h2 class="copies-title">Events that you saved</h2>
          <ul class="copies" aria-label="Events that you saved">${events.exports.map((one) => html`<${Archive} key=${one.export_id} one=${one} title=${one.event_title ?? 'An event'} first="The first one has what was written." isBusy=${events.isBusy} onRemove=${() => events.remove(one, 'The download was removed')} />`)}</ul>`
      }
      <p class="account-more"><a href="#my-account">Delete my account</a></p>
    </section>`
}
