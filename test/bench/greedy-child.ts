import { beGreedy, type Greed } from '../support/greedy.ts'

/** The greedy caller of `fairness`, in a process of its own: what it costs to ask must not count as the API's. */
let greed: { stop(): void } | undefined
process.on('message', (given: Greed | 'stop') => {
  greed?.stop()
  greed = given === 'stop' ? undefined : beGreedy(given)
})
process.once('disconnect', () => process.exit())
