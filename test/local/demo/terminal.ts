import t from 'tap'
import { terminal } from '../../../local/demo/terminal.ts'

function screen(isTTY: boolean) {
  let text = ''
  const out = {
    isTTY,
    columns: 60,
    write(chunk: string) {
      text += chunk
      return true
    },
  }
  const stopping = new AbortController()
  const written = () => {
    const now = text
    text = ''
    return now
  }
  return { ...terminal(stopping.signal, out as Parameters<typeof terminal>[1]), stopping, written }
}
const bar = (full: number) => '█'.repeat(full) + '░'.repeat(28 - full)

t.test('lines that are open at once are redrawn below what was said', async (t) => {
  const { say, statusLine, closeLines, stopping, written } = screen(true)
  const [photos, video] = [statusLine('Photos'), statusLine('Video')]
  photos.show(0.5, '3 of 6')
  t.equal(written(), `Photos     ${bar(14)} 3 of 6\n`)
  video.show(0, '0 %, a text that is longer than the terminal is wide')
  const lines = written()
  t.equal(lines.slice(0, 7), '\u001b[1A\u001b[J', 'over the line that was there')
  t.strictSame(lines.slice(7).split('\n'), [
    `Photos     ${bar(14)} 3 of 6`,
    `Video      ${bar(0)} 0 %, a text that is`,
    '',
  ])
  photos.end('all of them')
  t.match(written(), `\u001b[2A\u001b[JPhotos     ${bar(28)} all of them\nVideo      ${bar(0)}`)
  say('Hello')
  t.match(written(), `\u001b[1A\u001b[JHello\nVideo      ${bar(0)}`)
  closeLines()
  t.equal(written(), '\u001b[1A\u001b[J')
  stopping.abort()
  video.show(1, 'late')
  t.equal(written(), '')
})

t.test('elsewhere a line is printed at every fifth, and the cursor stays where it is', async (t) => {
  const { statusLine, written } = screen(false)
  const line = statusLine('Video')
  for (const percent of [0, 10, 19, 20, 30]) line.show(percent / 100, `${percent} %`)
  line.end('done')
  t.equal(written(), `Video      ${bar(0)} 0 %\nVideo      ${bar(6)} 20 %\nVideo      ${bar(28)} done\n`)
})
