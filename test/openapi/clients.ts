import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { fakeMp4, formOf, startTestApi } from '../support/api.ts'
import { runProgram } from '../support/services/process.ts'
import { skipping } from './skipping.ts'
import { ensureGenerator } from './tools.ts'

/**
 * `npm run test:clients`: clients generated from the document compile, and list media of which one is larger than 32 bits
 * can say. Not part of `npm test`, as it fetches its tools.
 */
const DOCUMENT = fileURLToPath(new URL('../../api/openapi.json', import.meta.url))
const PROGRAM = fileURLToPath(new URL('ListMedia.java', import.meta.url))
const LARGE = 5_000_000_000
const FETCH_MS = 600_000
/** Answers may grow, and so may enums: without these two, Java's client throws at what it does not know. */
const TOLERANT = '--additional-properties=disallowAdditionalPropertiesIfNotPresent=false,enumUnknownDefaultCase=true'

/** Names that the generator makes up for shapes without one. */
const MADE_UP = /Inner$|^Inline|\d{3}Response$|(All|Any|One)Of|Value$/

// Minutes beside other work.
t.setTimeout(1_800_000)
await skipping(t, async () => {
  const { mvn, java, jar } = await ensureGenerator()
  const api = await startTestApi(t)
  const { owner } = api.people
  const form = formOf(fakeMp4(1000))
  const { media_id } = (await api.call(owner, 'POST', `/api/media/${api.org}/single`, { form })).data
  await api.database.admin.query('update media set file_size_bytes = $1', [LARGE])
  const folder = await mkdtemp(join(tmpdir(), 'keepsake-clients-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))

  /** Writes a client into a folder and gives the names of its types. */
  async function generate(document: string, language: string, types: string, ...options: string[]): Promise<string[]> {
    await runProgram(java, [
      '-jar',
      jar,
      'generate',
      '-i',
      document,
      '-g',
      language,
      '-o',
      join(folder, language),
      ...options,
    ])
    const names = await readdir(join(folder, language, types))
    return names.map((name) => name.replace(/\.\w+$/, ''))
  }

  await t.test('the TypeScript client', async (t) => {
    const types = await generate(DOCUMENT, 'typescript-fetch', 'models')
    areNamed(t, types)
    const client = join(folder, 'typescript-fetch')
    const compilerOptions = { strict: true, target: 'es2022', module: 'commonjs', outDir: 'compiled', types: [] }
    await writeFile(join(client, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['index.ts'] }))
    await runProgram('tsc', ['-p', client])
    await writeFile(join(client, 'compiled', 'package.json'), '{"type":"commonjs"}')
    const { Configuration, StorageApi } = createRequire(import.meta.url)(join(client, 'compiled', 'index.js'))
    const storage = new StorageApi(new Configuration({ basePath: `${api.publicUrl}/v1`, accessToken: owner.token }))
    const { data } = await storage.listMedia({ orgId: api.org })
    t.match(data.media, [{ mediaId: media_id, fileSizeBytes: LARGE, uploadStatus: 'processing' }])
  })

  await t.test('the Java client, made before the answers and an enum grew', async (t) => {
    const older = join(folder, 'older.json')
    await writeFile(older, JSON.stringify(olderThan(JSON.parse(await readFile(DOCUMENT, 'utf8')))))
    areNamed(t, await generate(older, 'java', 'src/main/java/org/openapitools/client/model', TOLERANT))
    const client = join(folder, 'java')
    await cp(PROGRAM, join(client, 'src/main/java/ListMedia.java'))
    const classPath = join(client, 'class-path')
    const build = ['compile', 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath']
    await runProgram(mvn, ['-q', '-B', '-f', client, ...build, `-Dmdep.outputFile=${classPath}`], FETCH_MS)
    const classes = `${join(client, 'target/classes')}:${await readFile(classPath, 'utf8')}`
    const token = { env: { ...process.env, TOKEN: owner.token } }
    const shown = await runProgram(java, ['-cp', classes, 'ListMedia', `${api.publicUrl}/v1`, api.org], FETCH_MS, token)
    t.match(shown.trim(), new RegExp(`^${media_id} ${LARGE} unknown_default_open_api queued$`, 'm'))
  })
})

function areNamed(t: { strictSame(found: string[], wanted: string[]): void }, types: string[]): void {
  t.strictSame(
    types.filter((type) => MADE_UP.test(type)),
    [],
  )
}

/** The document as it might have been before a field and a value of an enum were added. */
// biome-ignore lint/suspicious/noExplicitAny: a JSON document that the test takes apart
function olderThan(document: any): unknown {
  const { Media, UploadStatus } = document.components.schemas
  delete Media.properties.expires_in
  Media.required = Media.required.filter((name: string) => name !== 'expires_in')
  UploadStatus.enum = UploadStatus.enum.filter((value: string) => value !== 'processing')
  return document
}
