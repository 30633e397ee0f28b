/**
 * Whether If-None-Match names this entity tag (weak comparison, RFC 9110 §13.1.2). Used instead of `req.fresh` of
 * Express, which answers no whenever the request also has `Cache-Control: no-cache`: `fetch` of Node and of browsers
 * adds that to every request with an If-None-Match of its caller (§13.2.2 gives it no say).
 */
export const isNoneMatch = (header: string | undefined, etag: string): boolean =>
  (header ?? '').split(',').some((tag) => tag.trim() === '*' || strip(tag) === strip(etag))

const strip = (tag: string) => tag.trim().replace(/^W\//, '')
