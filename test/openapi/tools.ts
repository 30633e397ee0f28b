import { createHash } from 'node:crypto'
import { access, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { cacheFolder } from '../support/cache-folder.ts'
import { programPath, runProgram } from '../support/services/process.ts'
import { threeTries } from '../support/three-tries.ts'

/** What a test needs and a machine may lack: on a continuous integration machine that is a failure, elsewhere a skip. */
export class Missing extends Error {}

const REQUIREMENTS = fileURLToPath(new URL('requirements.txt', import.meta.url))
const PIP = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--only-binary=:all:']

/** The Python and the folder of its packages that run schemathesis, in the versions of requirements.txt. */
export async function ensureSchemathesis(): Promise<{ python: string; packages: string }> {
  const python = await programPath('python3')
  if (!python) throw new Missing('Python is not installed')
  const key = createHash('sha256').update(await runProgram(python, ['-VV']))
  key.update(await readFile(REQUIREMENTS))
  const packages = join(cacheFolder(), `schemathesis-${key.digest('hex').slice(0, 16)}`)
  await onceInto(packages, async (folder) => {
    await runProgram(python, [...PIP, '--target', folder, '-r', REQUIREMENTS])
  })
  return { python, packages }
}

const GENERATOR = 'org.openapitools:openapi-generator-cli:7.17.0'
const COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy'

/** The jar of openapi-generator, from Maven Central. */
export async function ensureGenerator(): Promise<{ mvn: string; java: string; jar: string }> {
  const [mvn, java, javac] = await Promise.all(['mvn', 'java', 'javac'].map(programPath))
  if (!mvn) throw new Missing('Maven is not installed')
  if (!java || !javac) throw new Missing('a Java development kit is not installed')
  const folder = join(cacheFolder(), GENERATOR.replaceAll(':', '-'))
  await onceInto(folder, async (into) => {
    const output = [`-DoutputDirectory=${into}`, '-Dmdep.stripVersion=true']
    await runProgram(mvn, ['-q', '-B', COPY, `-Dartifact=${GENERATOR}`, ...output])
  })
  return { mvn, java, jar: join(folder, 'openapi-generator-cli.jar') }
}

/** Makes a folder whole or not at all. Several may make it at once: the first to finish wins. */
async function onceInto(folder: string, make: (unfinished: string) => Promise<void>): Promise<void> {
  if (await exists(folder)) return
  await mkdir(cacheFolder(), { recursive: true })
  const unfinished = await mkdtemp(`${folder}.`)
  try {
    await threeTries(() => make(unfinished))
    await rename(unfinished, folder)
  } catch (cause) {
    await rm(unfinished, { recursive: true, force: true })
    if (!(await exists(folder))) throw new Missing(`cannot be fetched: ${lastLineOf(cause)}`, { cause })
  }
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )

const lastLineOf = (error: unknown) =>
  String((error as Error).message)
    .trim()
    .split('\n')
    .at(-1)
