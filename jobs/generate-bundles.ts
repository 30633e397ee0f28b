import { glob, mkdir, rename, rm } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { rolldown } from 'rolldown'

/**
 * Part of `npm run build`: makes the compiled programs of Jobs (`dist/jobs/*\/main.js`) a few files instead of some
 * hundred modules, without what they never use, and leaves nothing else in `dist/jobs`. A pod starts for each video, and
 * loading modules is most of what its two programs do before the first frame.
 */
const [from, to] = ['dist/jobs', 'dist/bundled-jobs']
// A thread, which the programs look for beside the code that starts it.
const input: Record<string, string> = { 'shared/libheif-worker': `${from}/images/libheif-worker.js` }
for await (const main of glob(`${from}/*/main.js`)) input[`${basename(dirname(main))}/main`] = main

await mkdir(to)
const bundle = await rolldown({
  input,
  platform: 'node',
  // Finds its library relative to itself.
  external: ['sharp'],
})
await bundle.write({ dir: to, format: 'esm', entryFileNames: '[name].js', chunkFileNames: 'shared/[name]-[hash].js' })
await bundle.close()
await rm(from, { recursive: true })
await rename(to, from)
