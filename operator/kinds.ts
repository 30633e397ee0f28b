import { highlightRender } from './highlight-render/kind.ts'
import type { ProgramKind } from './program/kind.ts'
import { transcodeJob } from './transcode-job/kind.ts'

/** Every kind whose resources run a program to its end. */
export const PROGRAM_KINDS: readonly ProgramKind[] = [transcodeJob, highlightRender]
