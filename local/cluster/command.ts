import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Container } from './batch-schemas.ts'

export interface Command {
  file: string
  args: string[]
}
export type ResolveCommand = (container: Container) => Command

const REPOSITORY = fileURLToPath(new URL('../../', import.meta.url))
/** `jobs/transcode/main.js` or `api/features/retention/main.js`, in any folder of the image. */
const JOB_PROGRAM = /(?:^|\/)((?:jobs|api)\/[\w/-]+)\.[jt]s$/

/**
 * Replaces the image: `node …/jobs/<name>/main.js`, or below `api/`, (with or without `node`) runs the program of this repository with
 * this Node, without a build. Any other command is run unchanged.
 */
export const resolveFromRepository: ResolveCommand = ({ command = [], args = [] }) => {
  const words = [...command, ...args]
  const [file = '', ...rest] = words
  if (file !== 'node' && !JOB_PROGRAM.test(file)) return { file, args: rest }
  return { file: process.execPath, args: (file === 'node' ? rest : words).map(programHere) }
}

function programHere(word: string): string {
  const program = JOB_PROGRAM.exec(word)?.[1]
  if (!program) return word
  const candidates = ['.ts', '.js'].map((suffix) => `${REPOSITORY}${program}${suffix}`)
  return candidates.find((path) => existsSync(path)) ?? word
}
