import { openUnsentOf } from '../discussions/drafts.js'
import { GuestEvents } from '../events/list.js'
import { call, signOut } from '../lib/api.js'
import { forgetChanges } from '../lib/changes.js'
import { askBeforeLeaving, closeDialogs } from '../lib/dialogs.js'
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from '../lib/html.js'
import { hideToast, toast } from '../lib/toast.js'
import { openById } from '../library/open.js'
import { forgetLibrary } from '../library/store.js'
import { rememberUploadsOf } from '../uploads/memory.js'
import { endUploads, Uploads, uploadTo } from '../uploads/uploads.js'
import { closeViewer, forgetForward, unshown } from '../viewer/viewer.js'
import { forgetPerson, GROUP } from './forget.js'
import { Bar } from './frame.js'
import { VIEWS } from './registry.js'
import { SESSION_ENDED, SIGNED_OUT_EVERYWHERE, SignIn } from './sign-in.js'
import { listOf, viewOf, withoutKey } from './views.js'

/**
 * The whole page: asks who it is, then shows the view that the address names. `accounts` are those of the demo, `hasOutbox`
 * says that its mails can be seen, `wanted` is the account that its link names, `before` the person of the last visit, `media` the media item that the address named, `notice` why this person has to sign in.
 */
export function App({ accounts, hasOutbox, wanted, before, media, ...given }) {
  const [me, setMe] = useState(before)
  const [notice, setNotice] = useState(given.notice)
  // An account is named by the link alone: after signing out, the person may choose another one.
  const [account, setAccount] = useState(wanted)
  const open = async () => setMe(await call('GET', '/api/users/me'))
  const leave = (why) => {
    endUploads()
    closeViewer()
    closeDialogs()
    hideToast()
    forgetLibrary()
    forgetChanges()
    document.title = 'Keepsake'
    setNotice(why)
    setAccount(undefined)
    setMe(undefined)
  }
  const signOutHere = () => {
    forgetPerson()
    // The person has left, however long the platform takes to answer.
    const signedOut = signOut()
    leave()
    void signedOut.then((isEverywhere) => isEverywhere && toast(SIGNED_OUT_EVERYWHERE))
  }
  useEffect(() => {
    // A session that has ended: some request found out.
    const ended = ({ detail }) => leave(detail ?? SESSION_ENDED)
    addEventListener('keepsake:signed-out', ended)
    return () => removeEventListener('keepsake:signed-out', ended)
  }, [])
  if (me)
    return html`<${Signed} key=${me.user_id} me=${me} media=${media} hasOutbox=${hasOutbox} onSignOut=${signOutHere} />`
  return html`
    <main class="sign-in">
      <div class="card">
        <${SignIn} accounts=${accounts} wanted=${account} then=${open}>
          <img class="mark" src="/icon.svg" alt="" width="52" height="52" /><h1>Keepsake</h1><p class="muted">Share photos and videos with your group.</p>
          ${notice && html`<p role="status">${notice}</p>`}
        <//>
      </div>
    </main>`
}

function shownBefore({ user_id, organizations }) {
  const [user, id] = JSON.parse(localStorage.getItem(GROUP) ?? '[]')
  return user === user_id ? organizations.find((o) => o.org_id === id) : undefined
}

/** The page of a person. Nothing about their groups is known to it but what the API says. */
function Signed({ me, media, hasOutbox, onSignOut }) {
  const { organizations } = me
  // Before anything shows what is left of them.
  useMemo(() => {
    rememberUploadsOf(me.user_id)
    openUnsentOf(me.user_id)
  }, [])
  const [org, setOrg] = useState(() => shownBefore(me) ?? organizations[0])
  const { name, id } = useAddress()
  const View = VIEWS[name]
  const named = useRef(media)
  const openHere = (wanted) => org && void openById(wanted, { organizations, first: org, onFound: setOrg })
  /** Opens what the address named at the start: in the view, which `find` and `open` are of, or else in the library. */
  const onOpened = (find, open) => {
    const wanted = named.current
    named.current = undefined
    if (wanted && find?.(wanted)) open(wanted)
    else if (wanted) openHere(wanted)
  }
  useEffect(() => {
    if (name !== 'album') onOpened()
  }, [])
  useLayoutEffect(() => {
    if (org) localStorage.setItem(GROUP, JSON.stringify([me.user_id, org.org_id]))
  }, [org])
  // Before the person can choose files: without a group they would go nowhere.
  useLayoutEffect(() => {
    if (org) uploadTo(org, () => document.dispatchEvent(new Event('visibilitychange')))
  }, [org])
  useLayoutEffect(() => {
    scrollTo({ top: 0, behavior: 'instant' })
  }, [name, !id && org])
  useLayoutEffect(forgetForward, [name, id, org])
  const opened = useRef(false)
  useLayoutEffect(() => {
    // What had the focus went with the view before. The keys go on in the new one.
    if (opened.current && document.activeElement === document.body)
      document.getElementById('content').focus({ preventScroll: true })
    opened.current = true
  }, [name, id])
  useEffect(() => {
    const changed = () => {
      const wanted = unshown()
      if (!wanted) return
      if (!history.state?.viewer) history.replaceState(null, '', location.pathname + withoutKey(location.hash))
      openHere(wanted)
    }
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [org])
  const onSwitch = (chosen) => {
    closeDialogs()
    setOrg(chosen)
    // What has an id belongs to one group; another group has others.
    if (id) location.replace(listOf(name))
  }
  const given = { org, me, organizations, id, onFound: setOrg, onOpened }
  // One view at a time: another one, or another group, begins anew. The group of a link is found by the view itself.
  const key = [name, id, !id && org?.org_id].join()
  // Who belongs to no group may be a guest of events, and sees those and what belongs to them.
  const isForGuests = ['event', 'album', 'highlight'].includes(name) && id
  const isOfPerson = ['my-data', 'my-account', 'audit'].includes(name)
  const Shown = org || isForGuests || isOfPerson ? View : GuestEvents
  return html`
    <${Bar} me=${me} organizations=${organizations} org=${org} shown=${name} hasOutbox=${hasOutbox} onSwitch=${onSwitch} onSignOut=${onSignOut} />
    <main id="content" class="page" tabindex="-1">
      <${Shown} key=${key} ...${given} />
    </main>
    ${org && html`<${Uploads} name=${org.name} organizations=${organizations} />`}`
}

/** The view that the address names. The viewer adds a media item to the address of the view below it. */
function useAddress() {
  const [view, setView] = useState(() => viewOf(location.hash))
  const shown = useRef(location.hash)
  useEffect(() => {
    const changed = () => {
      const next = viewOf(location.hash)
      if (next.name === view.name && next.id === view.id) return
      // Above the address that was asked for, the one that is shown: going back from it leads there.
      if (askBeforeLeaving(() => history.back())) return history.pushState(null, '', location.pathname + shown.current)
      shown.current = location.hash
      document.title = 'Keepsake'
      hideToast()
      closeDialogs()
      setView(next)
    }
    changed()
    addEventListener('hashchange', changed)
    return () => removeEventListener('hashchange', changed)
  }, [view])
  return view
}
