const WIDTH = 28

/** A line that is redrawn in place on a terminal, and printed at intervals elsewhere. */
export interface StatusLine {
  show(fraction: number, text: string): void
  /** Prints the final state. */
  end(text: string): void
}

export interface Terminal {
  say(text: string): void
  statusLine(label: string): StatusLine
}

/** Output of a program until `stopped` is aborted: work that still runs then prints nothing after the last message. */
export function terminal(stopped: AbortSignal, out: NodeJS.WriteStream = process.stdout): Terminal {
  const write = (text: string) => void (stopped.aborted || out.write(text))
  return { say: (text) => write(`${text}\n`), statusLine: (label) => statusLine(label, out.isTTY, write) }
}

function statusLine(label: string, isTTY: boolean, write: (text: string) => void): StatusLine {
  let told = -1
  const line = (fraction: number, text: string) => {
    const full = Math.round(Math.min(Math.max(fraction, 0), 1) * WIDTH)
    return `${label.padEnd(11)}${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${text}`
  }
  return {
    show(fraction, text) {
      if (isTTY) write(`\r\u001b[2K${line(fraction, text)}`)
      else if (fraction >= told + 0.2) {
        told = fraction
        write(`${line(fraction, text)}\n`)
      }
    },
    end(text) {
      write(`${isTTY ? '\r\u001b[2K' : ''}${line(1, text)}\n`)
    },
  }
}

export const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`
