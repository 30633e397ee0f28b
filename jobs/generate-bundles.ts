import { glob } from 'node:fs/promises'
import { dirname } from 'node:path'
import { rolldown } from 'rolldown'

/**
 * Part of `npm run build`: makes each compiled program of a Job (`dist/jobs/*\/main.js`) a few files instead of some
 * hundred modules, without what they never use. A pod starts for each video, and loading modules is most of what its two
 * programs do before the first frame.
 */
for await (const main of glob('dist/jobs/*/main.js')) {
  const bundle = await rolldown({
    // The program looks for the worker beside itself.
    input: { main, 'libheif-worker': 'dist/jobs/images/libheif-worker.js' },
    platform: 'node',
    // Finds its library relative to itself.
    external: ['sharp'],
  })
  await bundle.write({ dir: dirname(main), format: 'esm', chunkFileNames: 'bundled-[name]-[hash].js' })
  await bundle.close()
}
