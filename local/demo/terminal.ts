const WIDTH = 28

/** One line that is redrawn in place on a terminal, and printed now and then elsewhere. */
export interface StatusLine {
  show(fraction: number, text: string): void
  /** Leaves the last state standing. */
  end(text: string): void
}

export function statusLine(label: string, out: NodeJS.WriteStream = process.stdout): StatusLine {
  let told = -1
  const line = (fraction: number, text: string) => {
    const full = Math.round(Math.min(Math.max(fraction, 0), 1) * WIDTH)
    return `${label.padEnd(11)}${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${text}`
  }
  return {
    show(fraction, text) {
      if (out.isTTY) out.write(`\r\u001b[2K${line(fraction, text)}`)
      else if (fraction >= told + 0.2) {
        told = fraction
        out.write(`${line(fraction, text)}\n`)
      }
    },
    end(text) {
      out.write(`${out.isTTY ? '\r\u001b[2K' : ''}${line(1, text)}\n`)
    },
  }
}

export const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`
