import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { rolldown } from 'rolldown'

const ROOT = join(import.meta.dirname, '../..')

/**
 * Compiles one program as the image's are, `test/bench/chunks` for example, into `folder`; returns the path of its
 * JavaScript. Run from its TypeScript a program needs the CPU and holds the memory for taking the types away.
 */
export async function compileProgram(name: string, folder: string): Promise<string> {
  const config = {
    extends: join(ROOT, 'tsconfig.build.json'),
    compilerOptions: { outDir: folder, rootDir: ROOT, noCheck: true, typeRoots: [join(ROOT, 'node_modules/@types')] },
    include: [],
    files: [join(ROOT, `${name}.ts`)],
  }
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  const child = spawn(process.execPath, [compiler, '-p', folder], { stdio: 'inherit' })
  const [code] = (await once(child, 'exit')) as [number | null]
  if (code !== 0) throw new Error(`${name} does not compile`)
  return join(folder, `${name}.js`)
}

/** The same for a program of a Job, which the image has as a bundle (`jobs/generate-bundles.ts`). Makes the folder. */
export async function bundleProgram(name: string, folder: string): Promise<string> {
  await mkdir(folder)
  const bundle = await rolldown({
    input: await compileProgram(name, folder),
    platform: 'node',
    external: ['sharp'],
    logLevel: 'silent',
  })
  await bundle.write({ dir: join(folder, 'bundled'), format: 'esm', entryFileNames: '[name].js' })
  await bundle.close()
  return join(folder, 'bundled/main.js')
}
