import { groupBy } from '../lib/group-by.js'
import { inWords } from '../lib/refusals.js'
import { session } from '../lib/session.js'
import { recall } from './memory.js'
import { keyOf, planUpload } from './plan.js'
import { uploadOf } from './upload.js'

const FILES_AT_ONCE = 3
const NOT_CANCELED = 'NOT_CANCELED'
const ARRIVED_PERHAPS = {
  ...{ state: 'failed', code: NOT_CANCELED },
  note: 'It may have arrived all the same: look in Photos',
}
/** What is wrong with the file itself, or was to be canceled: it is not sent again. */
const FINAL = ['UNSUPPORTED_CONTENT_TYPE', 'UNSUPPORTED_MEDIA', 'FILE_TOO_LARGE', NOT_CANCELED]

/** Whether it failed for a reason that another attempt may not meet. */
export const mayRetry = (job) => job.state === 'failed' && !FINAL.includes(job.code)

const isUnderWay = (job) => ['waiting', 'sending', 'canceling'].includes(job.state)

/**
 * Uploads any number of files, a few at a time. Each is {name, size, sent, state, note}, where the state is waiting,
 * sending, canceling, done, failed or canceled. `onChange()` follows every change; `onDone(job)` each file that has arrived.
 */
export function newUploadQueue({ onChange, onDone }) {
  let jobs = []
  let skipped = []
  let running = 0
  /** The keys of what is being canceled: a file that is added again meanwhile waits, because both have the same upload. */
  const ending = new Set()

  /** `entries`: {path, file}. Files that are on their way already are not added again; those that failed are. */
  function add(org, entries) {
    const plan = planUpload(entries)
    skipped.push(...plan.skipped)
    const pairs = new Map()
    const keys = new Set(plan.accepted.map((entry) => keyOf(org, entry)))
    jobs = jobs.filter((j) => j.state !== 'failed' || !keys.has(j.key))
    const present = new Set(jobs.filter((j) => !['canceling', 'canceled'].includes(j.state)).map((j) => j.key))
    for (const entry of plan.accepted) {
      const key = keyOf(org, entry)
      if (entry.stem) pairs.set(entry.stem, pairs.get(entry.stem) ?? recall(key).pairId)
      if (!present.has(key)) jobs.push(newJob(org, key, entry))
    }
    pairUp(pairs)
    next()
  }

  /** Both halves of a Live Photo get the same id, also when one of them was uploaded before a reload. */
  function pairUp(pairs) {
    for (const [stem, known] of pairs) pairs.set(stem, known ?? crypto.randomUUID())
    for (const job of jobs) if (job.stem && job.state === 'waiting') job.pairId ??= pairs.get(job.stem)
  }

  const newJob = (org, key, { file, type, stem, path }) => ({
    ...{ of: session()?.id, org, key, file, type, stem, path, name: file.name, size: file.size },
    ...{ sent: 0, resumed: 0, state: 'waiting', note: '', since: 0 },
  })

  function next() {
    for (let job = waiting(); job && running < FILES_AT_ONCE; job = waiting()) void start(job)
    onChange()
  }
  const waiting = () => jobs.find((j) => j.state === 'waiting' && !ending.has(j.key))

  async function start(job) {
    running++
    Object.assign(job, { state: 'sending', note: '', code: undefined, since: performance.now() })
    job.upload = uploadOf({
      ...{ of: job.of, org: job.org, file: job.file, type: job.type, pairId: job.pairId, key: job.key },
      onProgress(bytes) {
        job.sent = Math.min(bytes, job.size)
        job.note = ''
        onChange()
      },
      onResume(bytes) {
        Object.assign(job, { resumed: bytes, sent: Math.max(job.sent, bytes) })
        onChange()
      },
      onWait(text) {
        job.note = text
        onChange()
      },
    })
    try {
      await job.upload.run()
      Object.assign(job, { state: 'done', sent: job.size, file: undefined })
      onDone(job)
    } catch (error) {
      if (job.state === 'sending') fail(job, error)
    } finally {
      running--
      next()
    }
  }

  function fail(job, error) {
    Object.assign(job, { state: 'failed', sent: 0, resumed: 0, note: inWords(error), code: error.code })
    // The others would be refused as well.
    if (error.code !== 'QUOTA_EXCEEDED') return
    for (const other of jobs)
      if (other.state === 'waiting') Object.assign(other, { state: 'failed', note: error.message })
  }

  /** What is on its way may arrive all the same. Until it is deleted, the page must not be left. */
  function cancel(job) {
    const isOnItsWay = job.state === 'sending'
    job.state = isOnItsWay ? 'canceling' : 'canceled'
    if (job.upload) void endUpload(job, isOnItsWay)
    next()
  }

  async function endUpload(job, isOnItsWay) {
    ending.add(job.key)
    const isEnded = await job.upload.cancel().then(
      () => true,
      () => false,
    )
    ending.delete(job.key)
    const isAddedAgain = jobs.some((j) => j !== job && j.key === job.key && j.state === 'waiting')
    job.state = 'canceled'
    if (!isEnded && isOnItsWay && !isAddedAgain) Object.assign(job, ARRIVED_PERHAPS)
    next()
  }

  function retry(which = () => true) {
    for (const job of jobs) if (mayRetry(job) && which(job)) job.state = 'waiting'
    next()
  }

  /** Stops everything. What has arrived stays, and goes on when the same files are added again. */
  function stop() {
    for (const job of jobs) if (job.state === 'waiting') job.state = 'canceled'
    for (const job of jobs.filter((j) => j.state === 'sending')) {
      job.state = 'canceled'
      job.upload.pause()
    }
    clear()
  }

  /** Stops everything, and forgets also what is being canceled: the person leaves, and no answer is awaited for them. */
  function end() {
    stop()
    for (const job of jobs) if (job.state === 'canceling') job.upload.pause()
    jobs = []
    onChange()
  }

  /** Forgets what has ended. */
  function clear() {
    jobs = jobs.filter(isUnderWay)
    skipped = []
    onChange()
  }

  function summary() {
    const of = (state) => jobs.filter((j) => j.state === state)
    const counted = jobs.filter((j) => j.state !== 'canceled')
    const isLeft = (j) => ['waiting', 'sending', 'failed'].includes(j.state)
    const byGroup = [...groupBy(jobs, (j) => j.org)]
    const sum = (key) => counted.reduce((total, j) => total + j[key], 0)
    return {
      total: counted.length,
      bytes: sum('size'),
      sent: sum('sent'),
      resumed: sum('resumed'),
      done: of('done').length,
      sending: jobs.filter((j) => j.state === 'sending' || j.state === 'canceling'),
      failed: of('failed'),
      waiting: of('waiting').length,
      left: Object.fromEntries(byGroup.map(([org, all]) => [org, all.filter(isLeft).length])),
      skipped,
      isBusy: jobs.some(isUnderWay),
    }
  }

  return { add, cancel, retry, stop, end, clear, summary }
}
