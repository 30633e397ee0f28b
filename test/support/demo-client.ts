import { type Client, Refused } from '../../local/demo/client.ts'
import type { CallOptions, Person, TestApi } from './api.ts'

/** The API in the shape that the demo has. Fails after `limit` requests, as if the demo had been killed. */
export function demoClient(api: TestApi, person: Person, limit = Number.POSITIVE_INFINITY): Client {
  let left = limit
  const send = async (method: string, path: string, options: CallOptions) => {
    if (left-- <= 0) throw new Error('killed')
    const answer = await api.call(person, method, path, options)
    if (answer.status >= 300) throw new Refused(answer.status, `${method} ${path} answered ${answer.status}`)
    return answer.data
  }
  return {
    token: '',
    put: async (path, bytes) => void (await send('PUT', path, { bytes })),
    call: (method, path, json) => send(method, path, json === undefined ? {} : { json }),
  }
}

/** Runs a part of the demo again and again, each time killed one request later, until it comes to its end. */
export async function untilDone(run: (limit: number) => Promise<unknown>): Promise<void> {
  for (let limit = 1; ; limit++) {
    const done = await run(limit).then(
      () => true,
      (error: Error) => (error.message === 'killed' ? false : Promise.reject(error)),
    )
    if (done) return
  }
}
