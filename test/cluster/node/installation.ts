import { randomUUID } from 'node:crypto'
import { copyFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { simpleParser } from 'mailparser'
import t, { type Test } from 'tap'
import * as z from 'zod'
import { runCommandLine } from '../../../api/command-line.ts'
import { succeededOf } from '../../../crds/run.ts'
import { TRANSCODE_JOBS, type TranscodeJob } from '../../../crds/transcode-job.ts'
import { PODS } from '../../../lib/runtime/kube/cluster.ts'
import { checkLivePhoto, checkPhoto } from '../../../local/demo/check-pictures.ts'
import { checkStream, durationOf } from '../../../local/demo/check-stream.ts'
import { clip, ffmpeg } from '../../support/clips.ts'
import { eventually } from '../../support/eventually.ts'
import { heic, PHONE, quarters, tiffOf } from '../../support/pictures.ts'
import { longClip } from '../node-support/clips.ts'
import { heldEncode, install, resourceFor } from '../node-support/installation.ts'
import { eventsIn } from '../node-support/jetstream.ts'
import type { PodSeen } from '../node-support/namespace.ts'
import { storeEnvironment } from '../node-support/operator.ts'
import { requestsFrom } from '../node-support/own-token.ts'
import { holdEncoder, killPod } from '../node-support/pod-processes.ts'
import { API_URL, RELEASE } from '../node-support/release.ts'

/** The chart on a real node, from `helm install` to `helm uninstall` and back. The tests follow each other. */
t.setTimeout(1_800_000)
const it = await install(t)
const { namespace, phone, release, services } = it
const { kubectl } = namespace
const short = await clip('streamable')
const workloads = [
  'get',
  'deployments',
  '-o',
  'jsonpath={range .items[*]}{.metadata.name}={.status.readyReplicas} {end}',
]

const Highlight = z.object({
  highlight_id: z.string(),
  status: z.enum(['processing', 'completed', 'failed']),
  estimated_duration_sec: z.number(),
  variants: z.object({ hls_master_url: z.string().nullable() }).optional(),
  error: z.object({ code: z.string(), message: z.string() }).nullish(),
})

async function playable(t: Test, mediaId: string, path: string): Promise<void> {
  const media = await phone.untilConverted(mediaId)
  const stream = await checkStream(media.variants.hls_master_url ?? '', await durationOf(path))
  t.ok(stream.renditions.length > 0, `${stream.renditions.length} renditions played to their end`)
}
t.test('helm install brings everything up, and helm test agrees', async (t) => {
  t.same((await kubectl(...workloads)).trim().split(' ').sort(), [
    `${RELEASE}-keepsake-api=2`,
    `${RELEASE}-keepsake-operator=2`,
    `${RELEASE}-keepsake-worker=2`,
  ])
  t.match(await release.helm('test', RELEASE), /Phase:\s+Succeeded/)
})

t.test('helm test says which of the servers outside is not what the Secrets say', async (t) => {
  await namespace.secret('store', { ...storeEnvironment(services.s3), S3_BUCKET: 'not-ours' })
  t.teardown(() => namespace.secret('store', storeEnvironment(services.s3)))
  await t.rejects(release.helm('test', RELEASE, '--timeout', '5m'))
  const log = await kubectl('logs', `pod/${RELEASE}-keepsake-test`)
  t.match(log, /^FAILED: The object store stores an object: .*NoSuchBucket/m)
  t.strictSame(
    log.match(/^ok:|^FAILED:/gm),
    ['ok:', 'ok:', 'ok:', 'ok:', 'FAILED:', 'FAILED:', 'ok:'],
    'the store and nothing else',
  )
})

t.test('every program may do with its own token what it needs, and nothing else', async (t) => {
  const codes = (part: string, requests: string[]) =>
    requestsFrom(namespace, `deployment/${RELEASE}-keepsake-${part}`, requests)
  const here = `namespaces/${namespace.name}`
  const jobs = `apis/media.keepsake.dev/v1alpha1/${here}/transcodejobs`
  const batch = `apis/batch/v1/${here}/jobs`
  const lease = `apis/coordination.k8s.io/v1/${here}/leases/${RELEASE}-keepsake-operator`
  const secrets = [`GET api/v1/${here}/secrets`, `GET api/v1/${here}/secrets/database`, 'GET api/v1/secrets']
  const elsewhere = ['GET api/v1/nodes', 'GET api/v1/namespaces/kube-system/pods', `POST api/v1/${here}/pods`]
  const operator = [`GET ${jobs}`, `GET ${batch}`, `GET api/v1/${here}/pods`, `GET ${lease}`]
  t.same(await codes('operator', operator), [200, 200, 200, 200])
  t.same(await codes('operator', [...secrets, ...elsewhere, `POST ${jobs}`, `DELETE ${lease}`]), Array(8).fill(403))
  t.same(await codes('worker', [`GET ${jobs}`, `GET ${jobs}/none`]), [200, 404])
  const notTheirs = [`GET ${batch}`, `GET api/v1/${here}/pods`, `PATCH ${jobs}/none/status`, `GET ${lease}`]
  t.same(await codes('worker', [...secrets, ...elsewhere, ...notTheirs]), Array(10).fill(403))
  t.same(await codes('api', [`GET ${jobs}`]), ['no token'])
})

t.test('the mail of an invitation arrives, and its link opens the page of the event', async (t) => {
  const title = `Reunion ${randomUUID()}`
  const events = `/api/orgs/${phone.organization}/events`
  const start_at = new Date(Date.now() + 86_400_000).toISOString()
  const { event_id } = z
    .object({ event_id: z.string() })
    .parse(await phone.client.call('POST', events, { title, start_at }))
  await phone.client.call('POST', `${events}/${event_id}/activate`)
  const invited = { email: 'an.old.friend@example.org', message: 'It has been too long.' }
  await phone.client.call('POST', `${events}/${event_id}/invitations`, invited)
  const mail = await eventually('the mail', async () => services.mail.received[0], 120_000, 200)
  t.strictSame([mail.from, mail.to], ['hello@keepsake.example', [invited.email]])
  const { subject = '', text = '' } = await simpleParser(mail.raw)
  t.ok(`${subject} ${text}`.includes(title))
  t.match(text, invited.message)

  const [link = ''] = /http:\/\/\S+\/e\/c\/ntf_\S+#t=\S+/.exec(text) ?? []
  t.ok(link.startsWith(`${API_URL}/`), link)
  const page = await fetch(link)
  t.match(page, { status: 200, redirected: true })
  t.match(page.url, new RegExp(`^${API_URL}/i/\\w+#?`))
  const html = await page.text()
  t.ok(html.includes(title), 'without JavaScript')
  const files = [...html.matchAll(/(?:src|href)="([^"#]+\.(?:js|css|svg))"|"(?:preact|preact\/hooks|htm)": "([^"]+)"/g)]
  t.ok(files.length >= 8, `${files.length} files`)
  for (const [, named, library = ''] of files) {
    const file = await fetch(new URL(named ?? library, page.url))
    t.equal(file.status, 200, file.url)
    await file.body?.cancel()
  }
})

t.test('a video uploaded in chunks becomes a highlight that plays, and kubectl shows how it comes about', async (t) => {
  const path = await longClip()
  const mediaId = await phone.upload(path)
  const name = await resourceFor(namespace, mediaId)
  const pod = await namespace.runningPod(name)
  // In small steps: a fast machine would be done before anybody has heard that it has begun.
  let goOn = await holdEncoder(pod.metadata.uid ?? '')
  await eventually(
    'progress',
    async () => {
      goOn()
      await sleep(300)
      goOn = await holdEncoder(pod.metadata.uid ?? '')
      // On a busy machine the first percents come before anything is encoded, and a held encoder reports no speed.
      const { percent = 0, speed } = (await namespace.resource(name))?.status?.progress ?? {}
      return percent > 0 && speed
    },
    240_000,
    1000,
  )
  // What the last step has reported is written down seconds later: until then the two may differ.
  const row = async () => {
    const { status } = await namespace.until(name, 'speed', (r) => r.status?.progress?.speed)
    const [head = '', line = ''] = (await kubectl('get', 'tj', name)).split('\n')
    const says = new RegExp(`^${name} +${mediaId} +Running +${status?.progress?.percent} +[\\d.]+x +cpu +1 +\\d+`)
    return { head, line, says }
  }
  let seen = await row()
  const isSame = async () => {
    seen = await row()
    return seen.says.test(seen.line)
  }
  await eventually('the same percentage in both', isSame).catch(() => {})
  const { head, line, says } = seen
  t.match(head, /^NAME +MEDIA +PHASE +PROGRESS +SPEED +ACCELERATOR +ATTEMPTS +AGE/)
  t.match(line, says)
  const described = await kubectl('describe', 'tj', name)
  t.match(described, /Normal +JobCreated .*Created Job tj-/)
  t.match(described, /Message: +Attempt 1 of 3 is running/)
  const isShown = async () => typeof (await phone.media(mediaId)).conversion_progress?.percent === 'number'
  await eventually('progress that clients see as well', isShown)
  t.match(await phone.media(mediaId), { upload_status: 'processing' })
  goOn()

  await playable(t, mediaId, path)
  t.match((await kubectl('get', 'tj', name)).split('\n')[1], /Succeeded +100 /)
  await namespace.told(name, 'Succeeded', (e) => e.reason === 'Succeeded')
  t.match(await kubectl('describe', 'tj', name), /Normal +Succeeded .*1 of 1 inputs converted/)
  const events = await eventually(
    'MediaTranscoded in JetStream',
    async () => {
      const about = (await eventsIn(services.natsUrl)).filter(
        (e) => (e.data as { media_id: string }).media_id === mediaId,
      )
      return about.some((e) => e.type === 'MediaTranscoded') ? about : undefined
    },
    240_000,
    500,
  )
  t.same(
    events.map((e) => e.type),
    ['MediaUploaded', 'MediaTranscoded'],
    'each of them once',
  )
})

t.test('photos, one a HEIC and one half of a Live Photo, become pictures in batches', async (t) => {
  const folder = t.testdir()
  const picture = await quarters(1600, 1200).withExif(PHONE).jpeg().toBuffer()
  const files: Record<string, Buffer> = {
    'IMG_1.JPG': picture,
    'IMG_2.JPG': picture,
    'IMG_3.PNG': await quarters(800, 600).png().toBuffer(),
    'IMG_4.HEIC': await heic(await quarters(500, 380).png().toBuffer(), { irot: 1, exif: await tiffOf(PHONE) }),
    'IMG_5.JPG': picture,
  }
  for (const [name, bytes] of Object.entries(files)) await writeFile(join(folder, name), bytes)
  const pairId = randomUUID()
  const motion = join(folder, 'IMG_5.MOV')
  await copyFile(short, motion)
  const [image, video, ...others] = await Promise.all([
    phone.upload(join(folder, 'IMG_5.JPG'), pairId),
    phone.upload(motion, pairId),
    ...['IMG_1.JPG', 'IMG_2.JPG', 'IMG_3.PNG', 'IMG_4.HEIC'].map((name) => phone.upload(join(folder, name))),
  ])
  for (const id of [...others, image]) await checkPhoto(await phone.untilConverted(id))
  await phone.untilConverted(video)
  const { media } = await phone.library()
  await checkLivePhoto({ image, video }, media, await durationOf(motion))
  t.ok(others.every((id) => media.some((m) => m.media_id === id)))

  const all = await namespace.kube.list<TranscodeJob>(TRANSCODE_JOBS, { namespace: namespace.name })
  const batches = all.filter((r) => r.spec.inputs.every((i) => i.type === 'image'))
  t.equal(batches.flatMap((r) => r.spec.inputs).length, 5)
  t.ok(batches.length < 5, `${batches.length} TranscodeJobs for five photos`)
  const pods = (await Promise.all(batches.map((r) => namespace.podsOf(r.metadata.name)))).flat()
  t.equal(pods.length, batches.length)
  for (const pod of pods) t.notMatch(JSON.stringify(pod.spec.containers), /secretRef|secretKeyRef|S3_/, 'no key')
})

t.test('photos, a portrait video and music become a highlight that plays, and kubectl shows it', async (t) => {
  const folder = t.testdir()
  const [photo, video, tune] = ['IMG_6.JPG', 'IMG_7.mp4', 'tune.m4a'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ]
  await writeFile(photo, await quarters(1280, 960).jpeg().toBuffer())
  const tone = ['-f', 'lavfi', '-i', 'sine=f=440:d=3']
  await ffmpeg(['-f', 'lavfi', '-i', 'testsrc2=s=360x640:r=25:d=2', ...tone, '-shortest', '-pix_fmt', 'yuv420p', video])
  await ffmpeg([...tone, '-c:a', 'aac', tune])
  const said: string[] = []
  const terminal = { out: (text: string) => void said.push(text), err: (text: string) => void said.push(text) }
  const texts = ['--title', 'A tone', '--license', 'CC0-1.0', '--attribution', 'Keepsake']
  const env = { DATABASE_URL: services.databaseUrl, ...storeEnvironment(services.s3) }
  t.equal(await runCommandLine(['track', 'add', tune, ...texts], terminal, env), 0, said.join(''))
  const { music_track_id } = JSON.parse(said.join('')) as { music_track_id: string }

  const media_ids = [await phone.upload(photo), await phone.upload(video)]
  // Only then is it known how long the video is, and with it the highlight.
  for (const id of media_ids) await phone.untilConverted(id)
  const base = `/api/media/${phone.organization}/highlights`
  const given = { title: 'Reunion 🎉', media_ids, transition: 'crossfade', music_track_id }
  const made = Highlight.parse(await phone.client.call('POST', base, given))
  const highlight = await eventually(
    'the highlight',
    async () => {
      const now = Highlight.parse(await phone.client.call('GET', `${base}/${made.highlight_id}`))
      return now.status === 'processing' ? undefined : now
    },
    300_000,
    1000,
  )
  const [head = '', line = ''] = (await kubectl('get', 'hr')).split('\n')
  t.comment(`\n${head}\n${line}`)
  t.match(highlight, { status: 'completed', error: null }, await kubectl('describe', 'hr'))
  t.match(head, /^NAME +TITLE +PHASE +PROGRESS +SPEED +ACCELERATOR +ATTEMPTS +AGE/)
  t.match(line, /^hr-\S+ +Reunion 🎉 +Succeeded +100 /)
  // 3 s of the image and 2 s of the video, of which the crossfade takes half a second; the estimate is in whole seconds.
  t.equal(made.estimated_duration_sec, 5)
  const stream = await checkStream(highlight.variants?.hls_master_url ?? '', 4.5)
  t.ok(stream.renditions.length > 0, `${stream.renditions.length} renditions played to their end`)
  const isTold = async () => (await eventsIn(services.natsUrl)).some((e) => e.type === 'HighlightGenerated')
  await eventually('HighlightGenerated in JetStream', isTold, 240_000, 500)
})

t.test('suspend takes the pod away, and lifting it finishes the work', async (t) => {
  const held = await heldEncode(it, short)
  await kubectl('patch', 'tj', held.resource, '--type=merge', '-p', '{"spec":{"suspend":true}}')
  await eventually('no pod', async () => (await namespace.podsOf(held.resource)).length === 0, 240_000, 300)
  await namespace.until(held.resource, 'Suspended', (r) => succeededOf(r.status)?.reason === 'Suspended')
  t.match((await kubectl('get', 'tj', held.resource)).split('\n')[1], / Suspended /)
  t.match((await namespace.jobsOf(held.resource))[0]?.spec, { suspend: true })
  await kubectl('patch', 'tj', held.resource, '--type=merge', '-p', '{"spec":{"suspend":false}}')
  await playable(t, held.mediaId, short)
  for (const reason of ['Suspended', 'Resumed']) await namespace.told(held.resource, reason, (e) => e.reason === reason)
})

t.test('delete takes Job and pod along; Postgres still wants the highlight, so it is made again', async (t) => {
  const held = await heldEncode(it, short)
  const uid = (await namespace.resource(held.resource))?.metadata.uid
  const [job] = await namespace.jobsOf(held.resource)
  await kubectl('delete', 'tj', held.resource)
  const isGone = async () => !(await namespace.jobsOf(held.resource)).some((j) => j.metadata.uid === job?.metadata.uid)
  await eventually('the Job gone', isGone, 240_000, 300)
  const podIsGone = async () =>
    !(await namespace.podsOf(held.resource)).some((p) => p.metadata.uid === held.pod.metadata.uid)
  await eventually('the pod gone', podIsGone, 240_000, 300)
  await playable(t, held.mediaId, short)
  t.not((await namespace.resource(held.resource))?.metadata.uid, uid, 'another resource of the same name')
})

t.test('an operator that dies while it leads is followed by the other, and the encode does not notice', async (t) => {
  const held = await heldEncode(it, short)
  const holder = async () => {
    const lease = ['get', 'lease', `${RELEASE}-keepsake-operator`, '-o', 'jsonpath={.spec.holderIdentity}']
    return (await kubectl(...lease)).split('_')[0] ?? ''
  }
  const leader = await holder()
  // No chance to give the lease back.
  const [pod] = await namespace.kube
    .list<PodSeen>(PODS, { namespace: namespace.name })
    .then((all) => all.filter((p) => p.metadata.name === leader))
  killPod(pod?.metadata.uid ?? '')
  const died = performance.now()
  held.release()
  await playable(t, held.mediaId, short)
  t.comment(
    `projected ${Math.round(performance.now() - died)} ms after the leader's death; now ${await holder()} leads`,
  )
  t.equal((await namespace.jobsOf(held.resource)).length, 1)
  t.same(
    (await namespace.podsOf(held.resource)).map((p) => p.metadata.uid),
    [held.pod.metadata.uid],
  )
})

t.test('helm upgrade and helm rollback replace the programs and leave a running encode alone', async (t) => {
  const held = await heldEncode(it, short)
  const revisions = async () => {
    const each = '{.metadata.annotations.deployment\\.kubernetes\\.io/revision}'
    return kubectl('get', 'deployments', '-o', `jsonpath={range .items[*]}${each} {end}`)
  }
  const isUndisturbed = async (after: string) => {
    const pods = await namespace.podsOf(held.resource)
    t.same(
      pods.map((p) => p.metadata.uid),
      [held.pod.metadata.uid],
      `the same pod and no other after the ${after}`,
    )
    t.match(pods[0]?.status, { phase: 'Running', containerStatuses: [{ restartCount: 0 }] })
    t.equal((await namespace.jobsOf(held.resource)).length, 1)
  }
  t.equal((await revisions()).trim(), '1 1 1')
  const louder = ['api', 'worker', 'operator'].flatMap((part) => ['--set', `${part}.logLevel=debug`])
  await release.upgrade(...louder)
  await isUndisturbed('upgrade')
  t.equal((await revisions()).trim(), '2 2 2', 'api, operator and worker were replaced')
  await t.rejects(release.upgrade('--set', 'image.tag=none', '--timeout', '15s'), 'an image that is not there')
  t.match(await phone.media(held.mediaId), { upload_status: 'processing' }, 'nobody notices an upgrade that fails')
  await isUndisturbed('failed upgrade')
  await release.helm('rollback', RELEASE, '1', '--wait', '--timeout', '5m')
  await isUndisturbed('rollback')
  t.equal((await revisions()).trim(), '3 3 3', 'and replaced again')
  held.release()
  await playable(t, held.mediaId, short)
  t.equal((await namespace.resource(held.resource))?.status?.attempts, 1)
})

t.test('helm uninstall ends no encode; what is installed again finds it and carries on', async (t) => {
  const held = await heldEncode(it, short)
  await release.helm('uninstall', RELEASE, '--wait', '--timeout', '5m')
  t.equal((await kubectl('get', 'deployments', '-o', 'name')).trim(), '')
  t.match(await kubectl('get', 'tj', held.resource), /Running/, 'custom resources and their definition survive')
  t.match((await namespace.podsOf(held.resource))[0]?.status, { phase: 'Running' })
  held.release()
  await eventually(
    'the Job is complete without us',
    async () => {
      const [job] = await namespace.jobsOf(held.resource)
      return job?.status?.conditions?.some((c) => c.type === 'Complete' && c.status === 'True')
    },
    400_000,
    500,
  )
  t.equal(succeededOf((await namespace.resource(held.resource))?.status)?.status, 'Unknown')

  await release.install()
  await playable(t, held.mediaId, short)
  t.match((await namespace.resource(held.resource))?.status, { phase: 'Succeeded', attempts: 1 })
})

t.test('finished resources go when their time is over, and the highlight stays', async (t) => {
  const ttl = '/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/ttlSecondsAfterFinished/default'
  const setDefault = (seconds: number) => {
    const patch = JSON.stringify([{ op: 'replace', path: ttl, value: seconds }])
    return kubectl('patch', 'crd', 'transcodejobs.media.keepsake.dev', '--type=json', '-p', patch)
  }
  await setDefault(3)
  t.teardown(() => setDefault(86_400))
  const { mediaId, name } = await eventually(
    'a resource with a short life',
    async () => {
      // The API server takes a moment to serve the changed definition.
      const mediaId = await phone.upload(short)
      const name = await resourceFor(namespace, mediaId)
      const isShort = (await namespace.resource(name))?.spec.ttlSecondsAfterFinished === 3
      return isShort ? { mediaId, name } : undefined
    },
    240_000,
    1000,
  )
  await phone.untilConverted(mediaId)
  await eventually('the resource gone', async () => (await namespace.resource(name)) === undefined, 240_000, 300)
  await eventually('its Job gone', async () => (await namespace.jobsOf(name)).length === 0, 240_000, 300)
  // The sweep comes every 3 s and leaves alone what changed in the last 2.
  await sleep(8000)
  t.equal(await namespace.resource(name), undefined, 'nobody makes it again')
  await playable(t, mediaId, short)
})
