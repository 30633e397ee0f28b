/**
 * Takes the token of an invitation link out of the address, before any other file of the page is loaded: what is in the
 * address is in the history, in screenshots, and in what a person copies from there. It is kept for this tab alone.
 */
function take() {
  const given = new URLSearchParams(location.hash.slice(1))
  const [token, key] = [given.get('t'), given.get('key')]
  if (location.hash !== '') history.replaceState(history.state, '', location.pathname)
  const slug = location.pathname.replace(/^.*\/i\//, '').toUpperCase()
  // Another link to the same invitation is another attempt.
  if (token) sessionStorage.setItem(`keepsake.invitation.${slug}`, JSON.stringify({ token }))
  if (key) sessionStorage.setItem('keepsake.key', key)
  return Boolean(token || key)
}

take()
// Opening a newer link in the same tab changes the fragment alone.
addEventListener('hashchange', () => {
  if (take()) location.reload()
})
