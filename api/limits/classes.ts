/** How many requests are allowed, and which are counted together. */
export interface Limit {
  /** Requests that a caller may make on average in each `seconds`. */
  quota: number
  seconds: number
  /** Requests allowed at once after a pause; by default the whole quota. */
  burst?: number
  /**
   * `caller`: the user, or the address of a request without a token. `address`: always the address. `account`: the
   * address and the account, or another thing, that the request names, which is known only after its input has been read.
   * `accounts`: how many different ones an address names; naming one again within `seconds` costs nothing.
   */
  per: 'caller' | 'address' | 'account' | 'accounts'
}

export type Refusal = 'unauthorized' | 'throttled'

export interface LimitRules {
  /** By their names in the `RateLimit` header. A request must pass all of them, in this order. */
  limits: Readonly<Record<string, Limit>>
  /**
   * What a caller may do, by their names in the header: counted exactly, over all replicas, in the transaction that does it.
   * A request that is refused, and one that is answered from memory, counts only against `limits`.
   */
  done?: Readonly<Record<string, Limit & { per: 'caller' }>>
  /**
   * What may be refused, by their names in the header: with UNAUTHORIZED, or by a service that is asked too often
   * (`throttled`). A request passes while fewer were, and counts once it is refused: those that are under way at the same time
   * may exceed it.
   */
  refused?: Readonly<Record<string, Limit & { per: 'address'; by: Refusal }>>
  /** Counted exactly, over all replicas, in Postgres. Each replica counts the others separately. */
  shared?: true
  /** Requests of one user that one replica serves at the same time. */
  atOnce?: number
}

const MINUTE = 60
const TEN_MINUTES = 600
const HOUR = 3600
const DAY = 86_400
const one = (name: string, limit: Limit) => ({ limits: { [name]: limit } })

/** Requests of a class whose successes are counted are limited to so many times as many, by each process. */
const REQUESTS_PER_DONE = 10
type Scarce = Pick<Limit, 'quota' | 'seconds'>
const scarce = (name: string, first: Scarce, more: Readonly<Record<string, Scarce>> = {}): LimitRules => ({
  ...one(`${name}-requests`, { ...first, quota: first.quota * REQUESTS_PER_DONE, per: 'caller' }),
  done: Object.fromEntries(
    Object.entries({ [name]: first, ...more }).map(([key, limit]) => [key, { ...limit, per: 'caller' as const }]),
  ),
})

/**
 * Every class of operations with its limits. An operation belongs to one class, named by its route, and counts only
 * against that class. Sources: interface specification §4 and the decisions on limits.
 */
const OPERATIONS = {
  /** Every operation with a token that names no other class. */
  general: one('general', { quota: 600, seconds: MINUTE, burst: 60, per: 'caller' }),
  /** Public and inexpensive: health, keys, the API document. */
  public: one('public', { quota: 300, seconds: MINUTE, burst: 100, per: 'address' }),
  /** Signed links. A grid of thumbnails, or a family behind one address, must stay far below the limit. */
  delivery: one('delivery', { quota: 6000, seconds: MINUTE, burst: 600, per: 'address' }),
  /** Pictures of invitation links. An API draws each once; a page of invitations shows some at the same time. */
  qr: one('qr', { quota: 120, seconds: MINUTE, burst: 60, per: 'address' }),
  'single-upload': { ...one('single-upload', { quota: 3000, seconds: TEN_MINUTES, per: 'caller' }), atOnce: 12 },
  'upload-init': one('upload-init', { quota: 1000, seconds: HOUR, per: 'caller' }),
  chunk: { ...one('chunk', { quota: 1200, seconds: MINUTE, per: 'caller' }), atOnce: 6 },
  /**
   * Sign-ins. Guests of a party are behind one address, and a second factor is a request of its own: the address has a wide
   * limit, and what is limited strictly are those that are refused, and those that name one account.
   */
  login: {
    shared: true,
    // Before accounts are counted, so that a client that names many of them cannot fill the table of counters.
    refused: {
      'login-refused': { quota: 100, seconds: HOUR, per: 'address', by: 'unauthorized' },
      // By the minute: what the provider throttles says nothing of the passwords, and is over when the provider says so.
      'login-throttled': { quota: 10, seconds: MINUTE, per: 'address', by: 'throttled' },
    },
    limits: {
      // Not `login-address`, which counted by the hour: rows of another window would count during a rolling upgrade.
      'login-address-minute': { quota: 120, seconds: MINUTE, per: 'address' },
      login: { quota: 5, seconds: MINUTE, per: 'account' },
      'login-hour': { quota: 20, seconds: HOUR, per: 'account' },
    },
  },
  /** What the identity provider tells: each request is signed, and those of all users come from few addresses. */
  provider: one('provider', { quota: 6000, seconds: MINUTE, burst: 1000, per: 'address' }),
  /**
   * Refresh tokens. Many phones share one address, so the address has a wide limit, and what is limited strictly is the use
   * of one token. Of a token that this server knows, its user has a limit too (`REFRESH_LIMIT`).
   */
  refresh: {
    limits: {
      'refresh-address': { quota: 3000, seconds: MINUTE, burst: 600, per: 'address' },
      refresh: { quota: 30, seconds: MINUTE, per: 'account' },
    },
  },
  comment: one('comment', { quota: 30, seconds: MINUTE, per: 'caller' }),
  reaction: one('reaction', { quota: 60, seconds: MINUTE, per: 'caller' }),
  /** The order of an album: one request names up to 5,000 media items, and locks the album. */
  reorder: { ...one('reorder', { quota: 60, seconds: MINUTE, burst: 20, per: 'caller' }), atOnce: 2 },
  highlight: scarce('highlight', { quota: 10, seconds: HOUR }),
  invitation: scarce('invitation', { quota: 30, seconds: HOUR }, { 'invitation-day': { quota: 100, seconds: DAY } }),
  /** Responses to an invitation: everyone at a party may be behind one address. */
  respond: {
    limits: {
      respond: { quota: 10, seconds: MINUTE, per: 'caller' },
      'respond-address': { quota: 120, seconds: MINUTE, per: 'address' },
    },
  },
  /**
   * Look-ups by slug. Phones around one QR code look up one slug; a slug is short enough to guess, so what is limited
   * strictly is how many different ones an address names.
   */
  slug: {
    limits: {
      'slug-address': { quota: 600, seconds: MINUTE, per: 'address' },
      slugs: { quota: 60, seconds: TEN_MINUTES, per: 'accounts' },
      slug: { quota: 300, seconds: MINUTE, per: 'account' },
    },
  },
  /** Requests for a fresh link, of which each slug has a few a day besides. */
  renewal: {
    limits: {
      renewal: { quota: 20, seconds: HOUR, per: 'address' },
      'renewal-day': { quota: 60, seconds: DAY, per: 'address' },
    },
  },
  /** Event streams: each opening costs a look-up, and a client that lost its connection comes back. */
  changes: one('changes', { quota: 60, seconds: MINUTE, burst: 20, per: 'caller' }),
  /** Pages of the audit log: each may read 64 MiB. */
  audit: { ...one('audit', { quota: 120, seconds: MINUTE, burst: 30, per: 'caller' }), atOnce: 3 },
  export: scarce('export', { quota: 10, seconds: DAY }),
  anonymize: scarce('anonymize', { quota: 5, seconds: HOUR }),
} satisfies Record<string, LimitRules>

/**
 * Users whom the comments of one user mention: each is told at once. Counted in the transaction of the comment, besides
 * the class of its operation.
 */
export const MENTION_LIMIT: Limit = { quota: 300, seconds: HOUR, per: 'caller' }

/**
 * Exchanges of refresh tokens of one user at the identity provider, over all replicas. Each exchange replaces the token, so
 * a count by token would not bound a client that refreshes in a loop. Counted where the token is claimed.
 */
export const REFRESH_LIMIT: Limit = { quota: 30, seconds: MINUTE, per: 'caller' }

/**
 * Exchanges of refresh tokens that this server does not know. Each asks the identity provider, which may refuse everyone
 * where someone sends it tokens that are made up.
 */
export const UNKNOWN_REFRESH_LIMIT: Limit = { quota: 120, seconds: MINUTE, per: 'address' }

/** The class that a route names. */
export type LimitClass = keyof typeof OPERATIONS
export const LIMIT_CLASSES: Readonly<Record<LimitClass, LimitRules>> = OPERATIONS

/**
 * Requests whose token is missing or refused. Generous, because an app that resumes with an expired token sends all its
 * requests once, and must get a 401 to learn that it has to refresh.
 */
export const UNAUTHORIZED: LimitRules = one('unauthorized', { quota: 600, seconds: MINUTE, burst: 120, per: 'address' })
