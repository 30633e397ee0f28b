import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TranscodeInput, TranscodeJobSpec } from '../../crds/transcode-job.ts'
import { ImageManifest, VideoManifest } from '../../lib/contract/manifest.ts'
import { ProgressReport } from '../../lib/contract/progress.ts'
import { jobBench } from './job-run.ts'

const PREFIX = 'org/o/media/m/v1/'

/** A store and the real program, run on it with inputs. */
export async function transcodeBench(t: Parameters<typeof jobBench>[0]) {
  const bench = await jobBench(t, 'transcode', PREFIX)
  const { store, bytes } = bench

  async function inputOf(path: string, id = 'med_1', prefix = PREFIX): Promise<TranscodeInput> {
    const sourceKey = `org/o/media/${id}/original`
    await store.upload(path, sourceKey, { contentType: 'video/mp4' })
    return { id, type: 'video', sourceKey, outputPrefix: prefix }
  }

  /** Every picture as an input of one job, each with a prefix of its own. */
  const imagesOf = (pictures: Readonly<Record<string, Buffer>>): Promise<TranscodeInput[]> =>
    Promise.all(
      Object.entries(pictures).map(async ([id, bytes]) => {
        const sourceKey = `org/o/media/${id}/original`
        await store.put(sourceKey, bytes, { contentType: 'application/octet-stream' })
        return { id, type: 'image' as const, sourceKey, outputPrefix: `${PREFIX}${id}/` }
      }),
    )

  type Job = [inputs: readonly TranscodeInput[], spec?: Partial<TranscodeJobSpec>, env?: Record<string, string>]

  return {
    ...bench,
    inputOf,
    imagesOf,
    imageManifest: async (id: string) =>
      ImageManifest.parse(JSON.parse((await bytes('manifest.json', `${PREFIX}${id}/`)).toString())),
    start: (...[inputs, spec, env]: Job) => bench.start({ inputs, ...spec }, env),
    run: (...[inputs, spec, env]: Job) => bench.run({ inputs, ...spec }, env),
    manifest: async (prefix = PREFIX): Promise<VideoManifest> =>
      VideoManifest.parse(JSON.parse((await bytes('manifest.json', prefix)).toString())),
  }
}

/** What the operator's receiver would see. Answers with `status`. */
export async function progressReceiver(t: { teardown(f: () => unknown): unknown }, status = 204) {
  const reports: (ProgressReport & { at: number })[] = []
  const tokens = new Set<string | undefined>()
  const server = createServer((req, res) => {
    let body = ''
    req.on('data', (chunk) => (body += String(chunk)))
    req.on('end', () => {
      reports.push({ ...ProgressReport.parse(JSON.parse(body)), at: performance.now() })
      tokens.add(req.headers.authorization)
      res.writeHead(status).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => new Promise((resolve) => server.close(resolve)))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/progress`, reports, tokens }
}
