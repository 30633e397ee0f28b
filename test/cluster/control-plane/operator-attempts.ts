import t, { type Test } from 'tap'
import { EXIT, PERMANENT_EXITS } from '../../../lib/contract/job-result.ts'
import { eachKind } from '../../support/each-kind.ts'
import { eventually } from '../../support/eventually.ts'
import { type OperatorWorld, operatorPlane } from '../../support/operator-plane.ts'
import { controlPlaneWithoutNodes } from '../support.ts'

/** The Job controller waits 10 s before a second attempt, 20 s before a third: the cases wait side by side. */
const LONG = { timeout: 900_000 }
t.setTimeout(2 * LONG.timeout)
const side = () => ({ buffered: true, timeout: 600_000 }) // tap writes into it: one for each

const p = await operatorPlane(t, await controlPlaneWithoutNodes(t))
// Alone: a machine that stands still for as long as a lease would end it.
const operator = p.operator({
  LEADER_ELECTION: 'false',
  JOB_MEMORY: '1Gi',
  HIGHLIGHT_MEMORY: '1Gi',
  JOB_MEMORY_MAX: '3Gi',
})
await operator.logged('workers started')

interface WithMemory {
  spec: { template: { spec: { containers: { resources: { limits: { memory: string } } }[] } } }
}
/** The only Job there is, once it gives an attempt so much. */
const jobWith = (w: OperatorWorld, memory: string) =>
  eventually(`one Job with ${memory}`, async () => {
    const all = (await w.jobs('med-1')) as unknown as WithMemory[]
    return all.length === 1 && all[0]?.spec.template.spec.containers[0]?.resources.limits.memory === memory
  })
const final = (w: OperatorWorld) =>
  eventually('the end', async () => {
    const c = await w.condition('med-1')
    return c?.status === 'Unknown' ? undefined : c
  })

eachKind(
  t,
  (t, kit) => {
    t.jobs = 16
    /** One resource in a namespace of its own. */
    async function submit(t: Test, spec: object = {}): Promise<OperatorWorld> {
      const w = await p.world(t, kit)
      await w.submit('med-1', spec)
      return w
    }
    for (const [name, exitCode] of Object.entries(EXIT).filter(([, code]) => PERMANENT_EXITS.includes(code))) {
      t.test(`exit ${exitCode} (${name}) fails for good after one attempt`, side(), async (t) => {
        const w = await submit(t)
        await w.end('med-1', { exitCode })
        const c = await final(w)
        t.match(c.reason, /^(BadSpec|InputMissing|CorruptInput|EncoderMissing)$/)
        t.match(await w.status('med-1'), { phase: 'Failed', attempts: 1 })
        const [job] = await w.jobs('med-1')
        t.match(
          job?.status?.conditions?.find((c) => c.type === 'Failed'),
          { reason: 'PodFailurePolicy' },
        )
        t.equal((await w.pods('med-1')).length, 1)
      })
    }

    for (const [name, exitCode] of Object.entries(EXIT).filter(([, code]) => code >= 20)) {
      t.test(`exit ${exitCode} (${name}) is tried again, and the second attempt may succeed`, side(), async (t) => {
        const w = await submit(t)
        await w.end('med-1', { exitCode })
        const c = await w.said('med-1', 'Retrying')
        t.match(c, { status: 'Unknown', message: /^Attempt 1 of 3 failed: [A-Z]/ })
        await w.succeed('med-1')
        await w.says('med-1', 'Succeeded')
        t.match(await w.status('med-1'), { attempts: 2, progress: { percent: 100 } })
        t.equal((await w.jobs('med-1')).length, 1)
        await w.told('med-1', /^Warning Retrying: Attempt 1 of 3 failed/)
        await w.told('med-1', /^Normal Succeeded: /)
      })
    }

    t.test('what the program says about a failure reaches the condition, and the attempts end', side(), async (t) => {
      const w = await submit(t, { maxAttempts: 2 })
      const result = {
        ok: false,
        reason: 'StoreUnavailable',
        message: 'connection reset',
        outputs: [{ id: kit.output.id, state: 'Failed' as const }],
      }
      await w.end('med-1', { exitCode: 20, result })
      await w.said('med-1', /^Retrying: Attempt 1 of 2 failed: StoreUnavailable: connection reset/)
      await w.end('med-1', { exitCode: 20, result })
      await w.says('med-1', /^StoreUnavailable: connection reset$/)
      t.match(await w.status('med-1'), {
        phase: 'Failed',
        attempts: 2,
        outputs: [{ id: kit.output.id, state: 'Failed' }],
      })
    })

    t.test(
      'out of memory: each attempt gets twice as much up to the limit, then it fails and says so',
      side(),
      async (t) => {
        const w = await submit(t, { maxAttempts: 10 })
        for (const [memory, next] of [
          ['1Gi', '2Gi'],
          ['2Gi', '3Gi'],
        ] as const) {
          await jobWith(w, memory)
          await w.end('med-1', { exitCode: 137, reason: 'OOMKilled' })
          await w.said(
            'med-1',
            new RegExp(`^OOMKilled: Attempt . of 10 needed more than ${memory} of memory; the next one gets ${next}$`),
          )
        }
        await jobWith(w, '3Gi')
        await w.end('med-1', { exitCode: 137, reason: 'OOMKilled' })
        const end = await final(w)
        t.match(end, {
          reason: 'OOMKilled',
          message: 'Attempt 3 of 10 needed more than 3Gi of memory, which is the maximum',
        })
        t.match(await w.status('med-1'), { phase: 'Failed', attempts: 3, restarts: 2, memory: '3Gi' })
        t.equal((await w.jobs('med-1')).length, 1, 'the Jobs before are gone')
        const events = await w.told('med-1', /which is the maximum/)
        t.equal(events.filter((e) => e.startsWith('Warning OOMKilled')).length, 3)
      },
    )

    t.test(
      'out of memory in a child of the program, which itself ends otherwise, is seen as well',
      side(),
      async (t) => {
        const w = await submit(t)
        await w.end('med-1', { exitCode: EXIT.transient, reason: 'OOMKilled' })
        await jobWith(w, '2Gi')
        await w.succeed('med-1')
        await w.says('med-1', 'Succeeded')
        t.match(await w.status('med-1'), { attempts: 2, memory: '2Gi' })
      },
    )

    t.test(
      "evicted for its scratch space: counted, tried again, and the reason is the kubelet's",
      side(),
      async (t) => {
        const w = await submit(t, { maxAttempts: 2 })
        const podMessage = 'Usage of EmptyDir volume "work" exceeds the limit "36Gi".'
        const ending = { exitCode: 137, podReason: 'Evicted', podMessage }
        await w.end('med-1', ending)
        await w.said('med-1', /^Retrying: Attempt 1 of 2 failed: Evicted: Usage of EmptyDir volume "work" exceeds/)
        await w.end('med-1', ending)
        await w.says('med-1', /^Evicted: Usage of EmptyDir/)
        t.match(await w.status('med-1'), { phase: 'Failed', attempts: 2 })
      },
    )

    t.test(
      'evicted, and the kubelet does not know any more how its program ended: counted as well',
      side(),
      async (t) => {
        const w = await submit(t, { maxAttempts: 2 })
        const message = 'Usage of EmptyDir volume "work" exceeds the limit "36Gi".'
        await w.evictLost('med-1', message)
        await w.said('med-1', /^Retrying: Attempt 1 of 2 failed: Evicted: Usage of EmptyDir volume "work" exceeds/)
        await w.evictLost('med-1', message)
        await w.says('med-1', /^Evicted: Usage of EmptyDir/)
        t.match(await w.status('med-1'), { phase: 'Failed', attempts: 2 })
        t.equal((await w.jobs('med-1')).length, 1, 'no other Job was begun with')
      },
    )

    t.test('a pod that the cluster itself ends is replaced and counts as no attempt', side(), async (t) => {
      const w = await submit(t, { maxAttempts: 1 })
      const pod = await w.run('med-1')
      await w.podCondition('med-1', {
        type: 'DisruptionTarget',
        status: 'True',
        reason: 'DeletionByTaintManager',
        message: 'Taint manager: deleting due to NoExecute taint',
      })
      await w.endPod(pod, { exitCode: 137 })
      await w.said('med-1', /^Interrupted: .* does not count as an attempt: DeletionByTaintManager: Taint manager/)
      await w.succeed('med-1')
      await w.says('med-1', 'Succeeded')
      t.match(await w.status('med-1'), { attempts: 1 })
      t.equal((await w.jobs('med-1')).length, 1)
    })

    t.test('a node that is lost with its pod, of which nobody says how it ended', side(), async (t) => {
      const w = await submit(t, { maxAttempts: 1 })
      await w.run('med-1')
      const pod = await w.podCondition('med-1', {
        type: 'DisruptionTarget',
        status: 'True',
        reason: 'DeletionByPodGC',
        message: 'PodGC: node no longer exists',
      })
      await w.endLost(pod)
      await w.said('med-1', /^Interrupted: .*DeletionByPodGC/)
      await w.succeed('med-1')
      await w.says('med-1', 'Succeeded')
    })

    t.test(
      'an attempt that passes its deadline is tried again, and the last one says what happened',
      side(),
      async (t) => {
        const w = await submit(t, { maxAttempts: 2, attemptDeadlineSeconds: 60 })
        const [job] = [await w.awaitJob('med-1')]
        t.match(job, { spec: { template: { spec: { activeDeadlineSeconds: 60 } } } })
        const podMessage = 'Pod was active on the node longer than the specified deadline'
        const ending = { exitCode: EXIT.terminated, podReason: 'DeadlineExceeded', podMessage }
        await w.end('med-1', ending)
        await w.said('med-1', /^Retrying: .*DeadlineExceeded: The attempt took longer than attemptDeadlineSeconds/)
        await w.end('med-1', ending)
        await w.says('med-1', /^DeadlineExceeded: /)
        t.match(await w.status('med-1'), { phase: 'Failed', attempts: 2 })
      },
    )

    t.test('an image that cannot be pulled is shown, and no longer once it can', side(), async (t) => {
      const w = await submit(t)
      await w.live('med-1')
      await w.wait('med-1', 'ImagePullBackOff', 'Back-off pulling image "keepsake:1": not found')
      const c = await w.says('med-1', 'ImagePullBackOff')
      t.match(c, { status: 'Unknown', message: /Back-off pulling image "keepsake:1"/ })
      t.match(await w.status('med-1'), { phase: 'Pending', attempts: 0 })
      await w.run('med-1')
      t.match(await w.says('med-1', 'Running'), { message: 'Attempt 1 of 3 is running' })
    })

    t.test(
      'a pod that no node takes is shown with the words of the scheduler, and no longer once one does',
      side(),
      async (t) => {
        const w = await submit(t)
        const c = await w.says('med-1', 'Unschedulable')
        t.match(c, { status: 'Unknown', message: /nodes available/ })
        const events = await w.told('med-1', /^Warning Unschedulable: /)
        t.match(events[0], new RegExp(`^Normal JobCreated: Created Job ${kit.kind.shortName}-med-1-`))
        await w.run('med-1')
        await w.says('med-1', 'Running')
      },
    )

    t.test('a secret that is missing is shown', side(), async (t) => {
      const w = await submit(t)
      await w.wait('med-1', 'CreateContainerConfigError', 'secret "object-store" not found')
      await w.says('med-1', /^CreateContainerConfigError: secret "object-store" not found$/)
    })

    t.test(
      "pods that a kubelet refuses are not the media's fault: another Job follows, a few times",
      side(),
      async (t) => {
        const w = await submit(t, { maxAttempts: 1 })
        for (let restarts = 1; restarts <= 3; restarts++) {
          const pod = await eventually('a pod', async () =>
            (await w.pods('med-1')).find((p) => p.status?.phase === 'Pending'),
          )
          await w.setPod(pod, {
            phase: 'Failed',
            reason: 'OutOfcpu',
            message: 'Node did not have enough resource: cpu',
          })
          await eventually(`restart ${restarts}`, async () => (await w.status('med-1'))?.restarts === restarts)
        }
        const last = await eventually('the last pod', async () =>
          (await w.pods('med-1')).find((p) => p.status?.phase === 'Pending'),
        )
        await w.setPod(last, { phase: 'Failed', reason: 'OutOfcpu', message: 'Node did not have enough resource: cpu' })
        await w.says('med-1', /^NeverStarted: No attempt could start: Node did not have enough resource: cpu$/)
        t.match(await w.status('med-1'), { attempts: 0, phase: 'Failed' })
        t.equal((await w.jobs('med-1')).length, 1)
      },
    )
  },
  LONG,
)
