/** A frame rate as ffmpeg writes it; exact, because 30000/1001 is not 29.97. */
export interface Rational {
  num: number
  den: number
}

export const rational = (num: number, den = 1): Rational => {
  const g = gcd(num, den)
  return { num: num / g, den: den / g }
}

export const toNumber = (r: Rational) => r.num / r.den
export const toText = (r: Rational) => (r.den === 1 ? String(r.num) : `${r.num}/${r.den}`)

/** Reads `30000/1001`, `16:9` or `25`; undefined when it is not a positive number. */
export function parseRational(text: unknown): Rational | undefined {
  const [, num, den = '1'] = /^(\d+)(?:[/:](\d+))?$/.exec(typeof text === 'string' ? text : '') ?? []
  if (num === undefined || Number(num) === 0 || Number(den) === 0) return undefined
  return rational(Number(num), Number(den))
}

const gcd = (a: number, b: number): number => (b === 0 ? a : gcd(b, a % b))
