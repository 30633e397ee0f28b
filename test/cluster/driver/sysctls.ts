import { readdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'

const FILE = 'sysctls.json'
/** What a kubelet sets for the whole machine; `kernel.panic` and memory promises matter to whoever else works here. */
const SET_BY_KUBELET = [
  'vm/overcommit_memory',
  'vm/panic_on_oom',
  'kernel/panic',
  'kernel/panic_on_oops',
  'kernel/keys/root_maxkeys',
  'kernel/keys/root_maxbytes',
]

type Values = Record<string, string>

/** Notes the machine's settings in a run's folder; those of a run that is already there are the original ones. */
export async function rememberSysctls(folder: string): Promise<void> {
  const [known] = await othersOf(folder)
  await writeFile(join(folder, FILE), JSON.stringify(known ?? (await currentValues())))
}

/** Puts them back when no other run needs them as they are. */
export async function restoreSysctls(folder: string): Promise<void> {
  const values = await readValues(folder)
  if (!values || (await othersOf(folder)).length > 0) return
  for (const [name, value] of Object.entries(values)) await writeFile(`/proc/sys/${name}`, value).catch(() => {})
}

async function currentValues(): Promise<Values> {
  const values: Values = {}
  for (const name of SET_BY_KUBELET) {
    const value = await readFile(`/proc/sys/${name}`, 'utf8').catch(() => undefined)
    if (value !== undefined) values[name] = value
  }
  return values
}

async function othersOf(folder: string): Promise<Values[]> {
  const parent = dirname(folder)
  const names = (await readdir(parent)).filter((name) => name.startsWith('ks-k8s-') && join(parent, name) !== folder)
  const found = await Promise.all(names.map((name) => readValues(join(parent, name))))
  return found.filter((values) => values !== undefined)
}

const readValues = (folder: string) =>
  readFile(join(folder, FILE), 'utf8').then(
    (text) => JSON.parse(text) as Values,
    () => undefined,
  )
