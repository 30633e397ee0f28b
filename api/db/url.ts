/** For logs: the address of a database without its password. */
export function redactUrlPassword(url: string): string {
  if (!URL.canParse(url)) return '[database]'
  const parsed = new URL(url)
  return `${parsed.protocol}//${parsed.host}${parsed.pathname}`
}

/** Of the address of a database: parameters that node-postgres prefers to the settings of a program. */
const SETTINGS = ['statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout', 'query_timeout']

/**
 * Settings of a connection with the startup parameter `options`. That of the address goes in front of the program's, so
 * that the program's win: node-postgres lets the address replace them, and with them the role.
 */
export function withOptions(url: string, options: string): { connectionString: string; options: string } {
  const [address = '', query = ''] = url.split(/\?(.*)/s)
  const parameters = new URLSearchParams(query)
  const theirs = parameters.get('options')
  for (const name of ['options', ...SETTINGS]) parameters.delete(name)
  return {
    connectionString: parameters.size > 0 ? `${address}?${parameters}` : address,
    options: theirs ? `${theirs} ${options}` : options,
  }
}
