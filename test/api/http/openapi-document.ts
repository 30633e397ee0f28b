import t from 'tap'
import document from '../../../api/openapi.json' with { type: 'json' }

/**
 * What generated clients need of the document, for every operation: types with names, numbers with a width and true
 * bounds. openapi-generator makes up names for what has none (`MediaMetadataConversionRenditionsInner`), and takes an
 * integer without a format for 32 bits.
 */
// biome-ignore lint/suspicious/noExplicitAny: a JSON document that the test takes apart
type Json = any

const MOST_INT32 = 2 ** 31 - 1
const COMPONENT = /^#\/components\/schemas\/[^/]+$/
const OPERATION = /^#\/paths\/[^/]+\/(get|post|put|patch|delete)$/

/** Every object below, with the place where it stands as a JSON pointer. Examples are data, not schemas. */
function* nodesOf(node: Json, at = '#'): Generator<[at: string, node: Json]> {
  if (typeof node !== 'object' || node === null) return
  if (!Array.isArray(node)) yield [at, node]
  for (const [key, value] of Object.entries(node)) {
    if (!['example', 'examples', 'default'].includes(key)) yield* nodesOf(value, `${at}/${key.replaceAll('/', '~1')}`)
  }
}
const nodes = [...nodesOf(document)]
const operations = nodes.filter(([at]) => OPERATION.test(at))
const typesOf = (schema: Json): string[] => [schema.type].flat()
/** Names of properties look like keywords at times: a schema says what type it is, or what it is one of. */
const schemas = nodes.filter(([, s]) => typeof s.type === 'string' || Array.isArray(s.type) || Array.isArray(s.enum))

t.test('the document has operations and schemas to look at', async (t) => {
  t.ok(operations.length >= 18 && schemas.length >= 100)
})

t.test('every shape is a component with a name, and so is every set of values', async (t) => {
  for (const [at, schema] of schemas) {
    const isShape = typesOf(schema).includes('object') && schema.properties !== undefined
    const inComponent = COMPONENT.test(at)
    if ((isShape || schema.enum) && !inComponent) t.fail(`${at} has no name`)
  }
})

t.test('what is of several types is a component, but for what is of one type or null', async (t) => {
  for (const [at, node] of nodes) {
    const types = Array.isArray(node.type) ? node.type : (node.anyOf ?? node.oneOf ?? []).map((s: Json) => s.type)
    if (types.filter((type: string) => type !== 'null').length > 1 && !COMPONENT.test(at)) t.fail(`${at} has no name`)
  }
})

t.test('every body and every answer in JSON is a component', async (t) => {
  for (const [at, node] of nodes.filter(([at]) => /\/content\/application~1json$/.test(at))) {
    const isDocument = at.includes('/~1openapi.json/')
    t.ok(isDocument || COMPONENT.test(node.schema.$ref), at)
  }
})

t.test('answers are called after their data: MediaResponse, MediaListResponse', async (t) => {
  for (const [at, operation] of operations) {
    for (const [status, response] of Object.entries<Json>(operation.responses)) {
      const name = response.content?.['application/json']?.schema.$ref?.split('/').at(-1)
      const envelope = name && (document.components.schemas as Json)[name]
      const data = envelope?.properties.data?.$ref?.split('/').at(-1)
      if (data) t.equal(name, `${data}Response`, `${at} ${status}`)
    }
  }
  const names = Object.keys(document.components.schemas)
  for (const name of ['Media', 'MediaList', 'MediaResponse', 'MediaListResponse', 'Problem', 'ProblemCode']) {
    t.ok(names.includes(name), name)
  }
  // zod-openapi adds these endings to one schema that looks different in requests and answers, or that has no name.
  t.notOk(names.find((name) => /Output$|^__schema/.test(name)))
})

t.test(
  'every whole number has a format that holds it, and bounds that are not merely those of JavaScript',
  async (t) => {
    for (const [at, { minimum, maximum, format }] of schemas.filter(([, s]) => typesOf(s).includes('integer'))) {
      if (typeof minimum !== 'number' || typeof maximum !== 'number') t.fail(`${at} has no bounds`)
      else if (Math.max(maximum, -minimum) >= Number.MAX_SAFE_INTEGER) t.fail(`${at} has no true bounds`)
      else t.equal(format, maximum > MOST_INT32 || minimum < -MOST_INT32 ? 'int64' : 'int32', at)
    }
  },
)

t.test('sizes of files are 64 bits wide', async (t) => {
  const sizes = nodes.filter(([at]) => at.endsWith('/properties/file_size_bytes'))
  t.ok(sizes.length >= 4)
  for (const [at, size] of sizes) t.equal(size.format, 'int64', at)
})

t.test('every other number is a double', async (t) => {
  for (const [at, schema] of schemas.filter(([, s]) => typesOf(s).includes('number')))
    t.equal(schema.format, 'double', at)
})

t.test('every array says what is in it', async (t) => {
  for (const [at, schema] of schemas.filter(([, s]) => typesOf(s).includes('array'))) {
    if (schema.items === undefined || schema.prefixItems !== undefined) t.fail(`${at} has no items, or is a tuple`)
  }
})

t.test('answers may grow: no shape of an answer is closed', async (t) => {
  for (const [at, schema] of schemas) if (schema.additionalProperties === false) t.fail(`${at} is closed`)
})

t.test('no field that must be there is a component or null: openapi-generator for Java refuses the null', async (t) => {
  for (const [at, schema] of schemas) {
    for (const name of schema.required ?? []) {
      const alternatives: Json[] = schema.properties[name].anyOf ?? []
      if (alternatives.some((s) => s.type === 'null') && alternatives.some((s) => s.$ref)) t.fail(`${at} ${name}`)
    }
  }
})

t.test('ids in a path say how they are written', async (t) => {
  for (const [at, operation] of operations) {
    for (const parameter of operation.parameters ?? []) {
      if (parameter.name.endsWith('_id')) t.ok(parameter.schema.pattern, `${at} ${parameter.name}`)
    }
  }
})

t.test('every operation has a summary, a description, and answers that name the request', async (t) => {
  for (const [at, operation] of operations) {
    t.ok(operation.summary && operation.description, at)
    for (const [status, response] of Object.entries<Json>(operation.responses)) {
      const key = response.$ref?.split('/').at(-1)
      const headers = (key ? (document.components.responses as Json)[key] : response).headers
      t.ok(headers?.['X-Request-Id'], `${at} ${status}`)
    }
  }
})

t.test('every request can be too long, malformed, too slow, and one too many', async (t) => {
  for (const [at, { responses }] of operations) {
    for (const status of ['400', '408', '429', '431', '500', '503']) t.ok(responses[status], `${at} ${status}`)
  }
})

t.test('limits stand in every answer, except where the request could not be read', async (t) => {
  const UNREAD = ['MALFORMED_REQUEST', 'HEADERS_TOO_LARGE']
  const unread = new Set<string>()
  for (const [at, { responses }] of operations) {
    for (const [status, response] of Object.entries<Json>(responses)) {
      const { headers, content } = response.$ref
        ? (document.components.responses as Json)[response.$ref.split('/').at(-1)]
        : response
      const codes = Object.keys(content?.['application/json']?.examples ?? {})
      const isUnread = codes.length > 0 && codes.every((code) => UNREAD.includes(code))
      if (isUnread) unread.add(status)
      for (const name of ['RateLimit', 'RateLimit-Policy'])
        t.equal(name in headers, !isUnread, `${at} ${status} ${name}`)
    }
  }
  t.strictSame([...unread].sort(), ['400', '431'])
})

t.test('no two paths are the same but for the names in them', async (t) => {
  const shapes = Object.keys(document.paths).map((path) => path.replace(/\{[^}]+\}/g, '{}'))
  t.equal(new Set(shapes).size, shapes.length)
})
