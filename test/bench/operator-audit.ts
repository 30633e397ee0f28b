import { open, stat } from 'node:fs/promises'

interface AuditEvent {
  verb: string
  user: { username: string }
  objectRef?: { resource?: string; subresource?: string; namespace?: string; name?: string }
  responseStatus?: { code?: number }
  requestReceivedTimestamp: string
  stageTimestamp: string
}

const OURS = ['media.keepsake.dev', 'batch', 'events.k8s.io', 'coordination.k8s.io', '']

/** The API server writes down what the contenders ask of it, and which resources are made for them. */
export const AUDIT_POLICY = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived', 'ResponseStarted'],
  rules: [
    { level: 'Metadata', users: ['bench-keepsake', 'bench-go'], resources: OURS.map((group) => ({ group })) },
    { level: 'Metadata', users: ['admin'], verbs: ['create'], resources: [{ group: 'media.keepsake.dev' }] },
    { level: 'None' },
  ],
}

export interface Audit {
  /** What has been written since this was last asked. */
  since(): Promise<AuditEvent[]>
}

/** Reads the log from where it was last read to its end. */
export function auditOf(file: string): Audit {
  let at = 0
  return {
    async since() {
      const end = await stat(file).then(
        (s) => s.size,
        () => 0,
      )
      if (end <= at) return []
      const handle = await open(file)
      try {
        const { buffer } = await handle.read(Buffer.alloc(end - at), 0, end - at, at)
        const whole = buffer.lastIndexOf(10) + 1
        at += whole
        const lines = buffer.subarray(0, whole).toString('utf8').split('\n')
        return lines.filter(Boolean).map((line) => JSON.parse(line) as AuditEvent)
      } finally {
        await handle.close()
      }
    },
  }
}

/** Times of the API server have microseconds, more than a Date can hold. */
const micros = (time: string) => {
  const [seconds = '', fraction = '0Z'] = time.split('.')
  return Date.parse(`${seconds}Z`) * 1000 + Number(fraction.slice(0, -1).padEnd(6, '0').slice(0, 6))
}

export interface Latency {
  /** Milliseconds from the answer to "create this resource" to the answer to "create its Job". */
  whole: number
  /** Of these, how long the API server itself, and its store, took over the Job. */
  server: number
}

/** One for each resource, fastest first. */
export function latencies(events: readonly AuditEvent[], user: string): Latency[] {
  const made = new Map<string, number>()
  for (const e of creates(events, 'transcodejobs', 'admin')) made.set(e.objectRef?.name ?? '', micros(e.stageTimestamp))
  const found = creates(events, 'jobs', user).flatMap((e): Latency[] => {
    const resource = made.get((e.objectRef?.name ?? '').slice('tj-'.length, -'-12345678'.length))
    if (resource === undefined) return []
    const [received, answered] = [micros(e.requestReceivedTimestamp), micros(e.stageTimestamp)]
    return [{ whole: (answered - resource) / 1000, server: (answered - received) / 1000 }]
  })
  return found.sort((a, b) => a.whole - b.whole)
}

/** Seconds from the first resource made to the last Job made. */
export function spanOf(events: readonly AuditEvent[], user: string): number {
  const from = Math.min(...creates(events, 'transcodejobs', 'admin').map((e) => micros(e.requestReceivedTimestamp)))
  const to = Math.max(...creates(events, 'jobs', user).map((e) => micros(e.stageTimestamp)))
  return (to - from) / 1e6
}

/** When each Job was made for this user, in microseconds. */
export const jobsBy = (events: readonly AuditEvent[], user: string): number[] =>
  creates(events, 'jobs', user).map((e) => micros(e.stageTimestamp))

/** Jobs a second from the first one to the last. */
export function rateOf(events: readonly AuditEvent[], user: string): number {
  const times = jobsBy(events, user).sort((a, b) => a - b)
  return (times.length - 1) / (((times.at(-1) ?? 0) - (times[0] ?? 0)) / 1e6)
}

const creates = (events: readonly AuditEvent[], resource: string, user: string) =>
  events.filter(
    (e) =>
      e.verb === 'create' &&
      e.user.username === user &&
      e.objectRef?.resource === resource &&
      e.responseStatus?.code === 201,
  )

/** Requests of one user by kind, leases and the watches themselves left out: `patch transcodejobs/status` → how many. */
export function requestsOf(events: readonly AuditEvent[], user: string): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { verb, user: by, objectRef, responseStatus } of events) {
    if (by.username !== user || objectRef?.resource === 'leases' || verb === 'watch') continue
    const failed = (responseStatus?.code ?? 0) >= 400 ? ` → ${responseStatus?.code}` : ''
    const kind = `${verb} ${[objectRef?.resource, objectRef?.subresource].filter(Boolean).join('/')}${failed}`
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
  }
  return counts
}
