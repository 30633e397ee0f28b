import { createHash } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { runWith } from './cluster.ts'
import { PAUSE_IMAGE } from './node-files.ts'
import type { RunFolder } from './run-folder.ts'

/** Writes an image with one static program, in the form of `docker save`: every pod needs it, and no registry is near. */
export async function writePauseImage(run: RunFolder, binaries: string): Promise<string> {
  const folder = run.file('pause-image')
  await mkdir(folder, { recursive: true })
  const layer = join(folder, 'layer.tar')
  const root = ['--owner=0', '--group=0', '--numeric-owner', '--mode=0755', '--mtime=@0']
  await runWith('', ['tar', '-C', binaries, ...root, '-cf', layer, 'pause'])
  const digest = createHash('sha256').update(await readFile(layer))
  const config = {
    architecture: process.arch === 'x64' ? 'amd64' : process.arch,
    os: 'linux',
    config: { Entrypoint: ['/pause'] },
    rootfs: { type: 'layers', diff_ids: [`sha256:${digest.digest('hex')}`] },
    history: [{}],
  }
  const manifest = [{ Config: 'config.json', RepoTags: [PAUSE_IMAGE], Layers: ['layer.tar'] }]
  await writeFile(join(folder, 'config.json'), JSON.stringify(config))
  await writeFile(join(folder, 'manifest.json'), JSON.stringify(manifest))
  const archive = run.file('pause.tar')
  await runWith('', ['tar', '-C', folder, '-cf', archive, 'config.json', 'layer.tar', 'manifest.json'])
  return archive
}
