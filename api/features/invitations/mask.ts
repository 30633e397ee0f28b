/** `a***@example.org`: enough to recognize whom one has invited. */
export function maskEmail(email: string): string {
  const at = email.lastIndexOf('@')
  const [first = ''] = email
  return `${at > 0 ? first : ''}***${email.slice(at)}`
}

const LAST_DIGITS = 2
const FIRST_DIGITS = 3

/** `+49*******78`, as long as the number. */
export function maskPhone(number: string): string {
  const hidden = Math.max(number.length - FIRST_DIGITS - LAST_DIGITS, 0)
  return `${number.slice(0, FIRST_DIGITS)}${'*'.repeat(hidden)}${number.slice(FIRST_DIGITS + hidden)}`
}
