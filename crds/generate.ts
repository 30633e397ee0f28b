import { writeFileSync } from 'node:fs'
import { crdYaml } from './to-yaml.ts'
import { transcodeJobKind } from './transcode-job.ts'

for (const kind of [transcodeJobKind]) {
  writeFileSync(new URL(`./${kind.plural}.yaml`, import.meta.url), crdYaml(kind))
}
