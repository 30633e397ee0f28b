import type { Client } from '../../local/demo/client.ts'
import type { Person, TestApi } from './api.ts'

/** The API in the shape that the demo has. Fails after `limit` requests, as if the demo had been killed. */
export function demoClient(api: TestApi, person: Person, limit = Number.POSITIVE_INFINITY): Client {
  let left = limit
  return {
    token: '',
    put: () => Promise.reject(new Error('no files here')),
    async call(method: string, path: string, json?: unknown) {
      if (left-- <= 0) throw new Error('killed')
      const answer = await api.call(person, method, path, json === undefined ? {} : { json })
      if (answer.status >= 300) throw new Error(`${method} ${path} answered ${answer.status}`)
      return answer.data
    },
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
