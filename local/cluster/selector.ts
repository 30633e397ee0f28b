import { ClusterError, type KubeObject } from '../../lib/runtime/kube/cluster.ts'

export type LabelTest = (labels: Readonly<Record<string, string>>) => boolean

const SET_BASED = /^(\S+)\s+(in|notin)\s*\(([^)]*)\)$/
const EQUALITY = /^([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)$/
const EXISTS = /^(!?)\s*([A-Za-z0-9][\w./-]*)$/

/** Parses a label selector (`a=b,c!=d,e in (f,g),h,!i`). Throws Invalid when it is malformed. */
export function parseSelector(text: string | undefined): LabelTest {
  if (!text?.trim()) return () => true
  const tests = splitOutsideBrackets(text).map((part) => parseRequirement(part.trim()))
  return (labels) => tests.every((test) => test(labels))
}

/** Parses a field selector (`status.phase!=Succeeded,metadata.name=a`). Any path; an API server accepts a few. */
export function parseFieldSelector(text: string | undefined): (object: KubeObject) => boolean {
  if (!text?.trim()) return () => true
  const tests = text.split(',').map((part) => {
    const [, path = '', operator, wanted = ''] = EQUALITY.exec(part.trim()) ?? []
    if (!operator) throw new ClusterError('Invalid', `unable to parse requirement of the field selector: ${part}`)
    return (object: KubeObject) => (valueAt(object, path) === wanted) === (operator !== '!=')
  })
  return (object) => tests.every((test) => test(object))
}

/** A missing field has an empty value. */
function valueAt(object: KubeObject, path: string): string {
  let value: unknown = object
  for (const name of path.split('.')) value = (value as Record<string, unknown> | undefined)?.[name]
  return String(value ?? '')
}

function parseRequirement(text: string): LabelTest {
  const set = SET_BASED.exec(text)
  if (set) {
    const [, key = '', operator, list = ''] = set
    const values = list.split(',').map((v) => v.trim())
    return (labels) => values.includes(labels[key] ?? '\0') === (operator === 'in')
  }
  const equality = EQUALITY.exec(text)
  if (equality) {
    const [, key = '', operator, value = ''] = equality
    return (labels) => (labels[key] === value) === (operator !== '!=')
  }
  const exists = EXISTS.exec(text)
  if (exists) {
    const [, not, key = ''] = exists
    return (labels) => key in labels === (not !== '!')
  }
  throw new ClusterError('Invalid', `unable to parse requirement of the label selector: ${text}`)
}

const splitOutsideBrackets = (text: string): string[] => text.split(/,(?![^(]*\))/)
