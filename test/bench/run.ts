import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'

/** `npm run bench` runs every benchmark, one after another; `npm run bench -- media-list` only that. */
const ALL = [
  'media-list',
  'processes',
  'media-filter',
  'media-gallery',
  'media-rows',
  'event-list',
  'feed',
  'albums',
  'members',
  'audit-query',
  'invitations',
  'reactions',
  'event-streams',
  'consumers',
  'fairness',
  'repeats',
  'can',
  'auth',
  'comment-list',
  'chunks',
  'single-uploads',
  'transcode',
  'program-parts',
  'threads',
  'sharing',
  'sharing-model',
  'quality',
  'highlight-creation',
  'highlight',
  'images',
  'export',
  'retention',
  'retention-beside',
  'due-rows',
  'store-proxy',
  'cold-moves',
  'backfill',
  'audit',
  'operator',
  'pod-start',
  'migrations',
  'triggers',
]
const given = process.argv.slice(2)
const unknown = given.filter((name) => !ALL.includes(name))
if (unknown.length > 0) throw new Error(`there is no benchmark ${unknown.join(', ')}; there are ${ALL.join(', ')}`)

for (const name of given.length > 0 ? given : ALL) {
  console.log(`\n## ${name}\n`)
  // Each in a process of its own, so that none is measured with the leftovers of another.
  const child = spawn(process.execPath, [join(import.meta.dirname, `${name}.ts`)], { stdio: 'inherit' })
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0) process.exitCode = 1
}
