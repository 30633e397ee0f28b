const DIGITS = '0123456789abcdefghjkmnpqrstvwxyz'

/** The UUID of an id. Lists of members have bare UUIDs; everything else has `usr_` and 26 digits of base 32. */
export function uuidOf(id) {
  const [, digits] = /_([0-9a-z]{26})$/.exec(id) ?? []
  if (!digits) return id.toLowerCase()
  const value = [...digits].reduce((sum, digit) => sum * 32n + BigInt(DIGITS.indexOf(digit)), 0n)
  const hex = value.toString(16).padStart(32, '0')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
