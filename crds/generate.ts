import { writeFileSync } from 'node:fs'
import { KINDS } from './kinds.ts'
import { crdYaml } from './to-yaml.ts'

for (const kind of KINDS) {
  // A second copy for the chart: Helm can read only files inside the chart.
  for (const folder of ['.', '../charts/keepsake/files/crds']) {
    writeFileSync(new URL(`${folder}/${kind.plural}.yaml`, import.meta.url), crdYaml(kind))
  }
}
