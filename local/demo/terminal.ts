const WIDTH = 28

/** A line that is redrawn in place on a terminal, and printed at intervals elsewhere. Several can be open at once. */
export interface StatusLine {
  show(fraction: number, text: string): void
  /** Prints the final state. */
  end(text: string): void
}

export interface Terminal {
  say(text: string): void
  statusLine(label: string): StatusLine
  /** Removes the open lines, of work that will not end. */
  closeLines(): void
}

type Out = Pick<NodeJS.WriteStream, 'isTTY' | 'columns' | 'write'>

/** Output of a program until `stopped` is aborted: work that still runs then prints nothing after the last message. */
export function terminal(stopped: AbortSignal, out: Out = process.stdout): Terminal {
  const write = (text: string) => void (stopped.aborted || out.write(text))
  return out.isTTY ? redrawn(out, write) : printed(write)
}

/** The open lines stay below everything that was said. */
function redrawn(out: Out, write: (text: string) => void): Terminal {
  const open = new Map<StatusLine, string>()
  let drawn = 0
  const draw = (above = '') => {
    // A line that wraps would be two to the cursor.
    const lines = [...open.values()].map((text) => `${text.slice(0, (out.columns || 80) - 1)}\n`)
    const erase = drawn > 0 ? `\u001b[${drawn}A\u001b[J` : ''
    drawn = lines.length
    write(`${erase}${above}${lines.join('')}`)
  }
  return {
    say: (text) => draw(`${text}\n`),
    statusLine(label) {
      const self: StatusLine = {
        show(fraction, text) {
          open.set(self, line(label, fraction, text))
          draw()
        },
        end(text) {
          open.delete(self)
          draw(`${line(label, 1, text)}\n`)
        },
      }
      return self
    },
    closeLines() {
      open.clear()
      draw()
    },
  }
}

function printed(write: (text: string) => void): Terminal {
  return {
    say: (text) => write(`${text}\n`),
    statusLine(label) {
      let told = -1
      return {
        show(fraction, text) {
          if (fraction < told + 0.2) return
          told = fraction
          write(`${line(label, fraction, text)}\n`)
        },
        end: (text) => write(`${line(label, 1, text)}\n`),
      }
    },
    closeLines() {},
  }
}

function line(label: string, fraction: number, text: string): string {
  const full = Math.round(Math.min(Math.max(fraction, 0), 1) * WIDTH)
  return `${label.padEnd(11)}${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${text}`
}

export const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(1)} MB`
