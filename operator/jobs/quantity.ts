const UNITS: Record<string, number> = { '': 1, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 }
for (const [i, unit] of ['Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'].entries()) UNITS[unit] = 1024 ** (i + 1)

/** A Kubernetes quantity in bytes; NaN for anything else. */
export function bytesOf(quantity: string): number {
  const [, number = '', unit = ''] = /^(\d+(?:\.\d+)?)([a-zA-Z]*)$/.exec(quantity) ?? []
  return Number.parseFloat(number) * (UNITS[unit] ?? Number.NaN)
}

/** A Kubernetes quantity in the largest unit that divides it. */
export function quantityOf(bytes: number): string {
  const whole = Math.ceil(bytes)
  const unit = ['Gi', 'Mi', 'Ki'].find((u) => whole % (UNITS[u] ?? 1) === 0) ?? ''
  return `${whole / (UNITS[unit] ?? 1)}${unit}`
}
