const KEPT = 'keepsake.replied'
const MOST = 300

/** Of each discussion, the comments with replies that this person has seen in this window, as [base, id, created_at]. */
let known = JSON.parse(sessionStorage.getItem(KEPT) ?? '[]')

function keep(next) {
  if (next.length === known.length) return
  known = next.slice(-MOST)
  sessionStorage.setItem(KEPT, JSON.stringify(known))
}

/** The API does not list deleted comments, whose replies stay: only a page that has seen a comment can ask for them. */
export function rememberReplied(base, comments) {
  const there = new Set(known.map(([, id]) => id))
  const replied = comments.filter((c) => c.reply_count > 0 && !there.has(c.comment_id))
  keep([...known, ...replied.map((c) => [base, c.comment_id, c.created_at])])
}

export const repliedIn = (base) =>
  known.filter(([where]) => where === base).map(([, comment_id, created_at]) => ({ comment_id, created_at }))

export const forgetReplied = (base, wanted) => keep(known.filter(([where, id]) => where !== base || id !== wanted))

export const forgetAllReplied = () => keep([])
