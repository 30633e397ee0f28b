/** For logs: the address of a database without its password. */
export function redactUrlPassword(url: string): string {
  if (!URL.canParse(url)) return '[database]'
  const parsed = new URL(url)
  return `${parsed.protocol}//${parsed.host}${parsed.pathname}`
}
