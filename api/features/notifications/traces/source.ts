export type Source = 'person' | 'proxy' | 'scanner'

export interface Seen {
  what: 'open' | 'click'
  method: string
  userAgent: string | null
  /** After the mail was sent; null where that is not known. */
  seconds: number | null
}

/** They fetch pictures for people, some of them before a person looks. */
const PROXY = /GoogleImageProxy|YahooMailProxy|ggpht\.com|DuckDuckGo-Mail|ProtonMail/i
/** Apple's Mail Privacy Protection says nothing else. */
const APPLE_PROXY = /^Mozilla\/5\.0$/
const SCANNER =
  /bot\b|crawl|spider|scan|preview|proofpoint|barracuda|mimecast|safelinks|symantec|trend ?micro|forcepoint|curl|wget|python|java\/|go-http|okhttp|axios|node|headless|libwww|httpclient/i
/** No person opens a mail and follows its link this soon after it was sent. */
const TOO_SOON_SECONDS = { open: 2, click: 5 }

/** Who has probably asked. A guess: what looks like a person may be a scanner that pretends to be a browser. */
export function likelySource({ what, method, userAgent, seconds }: Seen): Source {
  const agent = userAgent?.trim() ?? ''
  if (method !== 'GET') return 'scanner'
  if (PROXY.test(agent) || (what === 'open' && APPLE_PROXY.test(agent))) return 'proxy'
  if (!/^(Mozilla|Opera)\/\d/.test(agent) || APPLE_PROXY.test(agent) || SCANNER.test(agent)) return 'scanner'
  if (seconds !== null && seconds < TOO_SOON_SECONDS[what]) return 'scanner'
  return 'person'
}
