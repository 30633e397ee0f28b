/** What the processes of a replica ask each other. */
export type Question = 'alive' | 'ready' | 'metrics' | 'begun' | 'listening'

type Answers = Partial<Record<Question, () => Promise<unknown>>>
type Ask = (question: Question, timeoutMs: number) => Promise<unknown>

type Message =
  | { channel: 'asked'; id: number; question: Question }
  | { channel: 'answered'; id: number; value: unknown }
  | { channel: 'failed'; id: number; reason: string }

/** The end of a channel between two processes, such as `process` or a worker of node:cluster. */
interface End {
  send(message: Message, done: (error: Error | null) => void): unknown
  on(event: 'message', hear: (message: unknown) => void): unknown
  on(event: 'disconnect', hear: () => void): unknown
}

interface Waiting {
  resolve(value: unknown): void
  reject(error: Error): void
}

/** Both ends ask and answer. The promise of a question rejects when the other end fails, is gone, or takes too long. */
export function openChannel(end: End, answers: Answers): Ask {
  const waiting = new Map<number, Waiting>()
  let last = 0
  // The other end may be gone: it hears nothing more, and what it has asked ends with it.
  const say = (message: Message, failed: (error: Error) => void = () => {}) =>
    end.send(message, (error) => void (error && failed(error)))

  async function answer(id: number, question: Question): Promise<void> {
    try {
      const value = await answers[question]?.()
      say({ channel: 'answered', id, value })
    } catch (error) {
      say({ channel: 'failed', id, reason: (error as Error).message })
    }
  }

  end.on('message', (heard) => {
    const message = heard as Message
    if (message.channel === 'asked') void answer(message.id, message.question)
    else if (message.channel === 'answered') waiting.get(message.id)?.resolve(message.value)
    else if (message.channel === 'failed') waiting.get(message.id)?.reject(new Error(message.reason))
  })
  end.on('disconnect', () => {
    for (const { reject } of waiting.values()) reject(new Error('the other process is gone'))
  })

  return async (question, timeoutMs) => {
    const id = ++last
    let timer: NodeJS.Timeout | undefined
    try {
      return await new Promise((resolve, reject) => {
        waiting.set(id, { resolve, reject })
        timer = setTimeout(() => reject(new Error(`no answer to ${question} in ${timeoutMs} ms`)), timeoutMs)
        say({ channel: 'asked', id, question }, reject)
      })
    } finally {
      clearTimeout(timer)
      waiting.delete(id)
    }
  }
}
