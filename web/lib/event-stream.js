/** Reading of server-sent events (HTML Living Standard §9.2) with `fetch`, because EventSource sends no headers. */

/**
 * Takes text in pieces of any length: `push(text)` returns the messages that it ends, `{event, data}`. Also `id`, the last
 * one, and `retry` in milliseconds, undefined until there is one. Unlike an EventSource, it returns a message without data
 * if it has a name.
 */
export function newParser() {
  let rest = ''
  let isFirst = true
  let block = { data: [] }
  const parser = { id: undefined, retry: undefined, push }

  function push(text) {
    rest += isFirst ? text.replace(/^\uFEFF/, '') : text
    isFirst &&= rest === ''
    // A CR at the end may be the first half of a CRLF.
    const lines = rest.split(/\r\n|\n|\r(?!$)/)
    rest = lines.pop()
    return lines.flatMap(line)
  }

  function line(text) {
    if (text === '') return end()
    const [, name, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(text)
    if (name === 'data') block.data.push(value ?? '')
    if (name === 'event') block.event = value ?? ''
    if (name === 'id' && !value?.includes('\0')) block.id = value ?? ''
    if (name === 'retry' && /^\d+$/.test(value)) parser.retry = Number(value)
    return []
  }

  function end() {
    const { event, data, id } = block
    block = { data: [] }
    if (id !== undefined) parser.id = id
    return event || data.length > 0 ? [{ event: event || 'message', data: data.join('\n') }] : []
  }

  return parser
}

/** Reads the messages of an answer until it ends. `heard()` is called for each piece, also for one without messages. */
export async function* messagesOf(response, parser, heard = () => {}) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      heard()
      yield* parser.push(value)
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}
