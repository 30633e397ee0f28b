import { readFileSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import * as z from 'zod'
import { withCondition } from '../../crds/kind.ts'
import { KINDS } from '../../crds/kinds.ts'
import { retentionPolicyKind } from '../../crds/retention-policy.ts'
import { crdSchema, crdYaml } from '../../crds/to-yaml.ts'

/** Fields that can be changed; of kinds that run a program to its end: priority and suspend. */
const OPEN: Record<string, string[]> = {
  RetentionPolicy: Object.keys(retentionPolicyKind.spec.shape)
    .filter((field) => field !== 'target')
    .sort(),
}

for (const kind of KINDS) {
  t.test(`the committed CRD of ${kind.kind} is what the schema generates`, async (t) => {
    const committed = readFileSync(new URL(`../../crds/${kind.plural}.yaml`, import.meta.url), 'utf8')
    t.equal(committed, crdYaml(kind), 'run `npm run gen`')
    const { spec } = parse(committed)
    t.match(spec.names, { shortNames: kind.shortNames, categories: ['keepsake'], listKind: `${kind.kind}List` })
    t.strictSame(spec.versions[0].subresources, { status: {} })
    t.notMatch(committed, /preserve-unknown-fields|anyOf|oneOf|\$ref/)
  })

  t.test(`kubectl explain says what every field of ${kind.kind} means`, async (t) => {
    interface Node {
      description?: string
      properties?: Record<string, Node>
      items?: Node
    }
    const undescribed = ({ properties = {}, items }: Node, path: string): string[] => [
      ...Object.entries(properties).flatMap(([name, node]) => [
        ...(node.description ? [] : [`${path}.${name}`]),
        ...undescribed(node, `${path}.${name}`),
      ]),
      ...(items ? undescribed(items, `${path}[]`) : []),
    ]
    for (const part of ['spec', 'status'] as const) {
      const schema = crdSchema(kind[part]) as Node
      t.ok(schema.description, part)
      t.strictSame(undescribed(schema, part), [])
    }
  })

  t.test(`which fields of the spec of ${kind.kind} can be changed`, async (t) => {
    const { properties, 'x-kubernetes-validations': rules } = crdSchema(kind.spec) as {
      properties: object
      'x-kubernetes-validations': { rule: string }[]
    }
    const fixed = rules
      .map(
        (r) =>
          /^self\.(\w+) == oldSelf\.\1$/.exec(r.rule)?.[1] ??
          /^has\(self\.(\w+)\) == has\(oldSelf\.\1\)/.exec(r.rule)?.[1],
      )
      .filter(Boolean)
    const open = Object.keys(properties).filter((name) => !fixed.includes(name))
    t.strictSame(open.sort(), OPEN[kind.kind] ?? ['priority', 'suspend'])
    for (const { rule } of rules.filter((r) => r.rule.startsWith('self.') && r.rule.includes('oldSelf'))) {
      const field = Reflect.get(kind.spec.shape, /^self\.(\w+)/.exec(rule)?.[1] ?? '')
      t.notOk(field instanceof z.ZodOptional, `${rule} may read the field, because it is always there`)
    }
  })
}

const notStructural: [string, z.ZodType, RegExp][] = [
  ['a union', z.object({ a: z.union([z.string().max(3), z.int()]) }), /schema.a: unions/],
  ['a string without a bound', z.object({ a: z.object({ b: z.string() }) }), /schema.a.b: a string needs/],
  ['an array without a bound', z.object({ a: z.array(z.int()) }), /schema.a: an array needs/],
  ['anything at all', z.object({ a: z.array(z.unknown()).max(3) }), /schema.a\[\]: has no type/],
  ['a map', z.object({ a: z.record(z.string(), z.int()) }), /schema.a: an object needs/],
]
for (const [name, schema, message] of notStructural) {
  t.test(`refuses to generate ${name}`, async (t) => t.throws(() => crdSchema(schema), { message }))
}

t.test('the time of a condition moves only when its status flips', async (t) => {
  const condition = { type: 'Succeeded', status: 'Unknown' as const, reason: 'A', message: '', observedGeneration: 1 }
  const first = withCondition([], condition, new Date(1000))
  const second = withCondition(first, { ...condition, reason: 'B' }, new Date(2000))
  t.match(second, [{ reason: 'B', lastTransitionTime: new Date(1000).toISOString() }])
  const third = withCondition(second, { ...condition, status: 'True' }, new Date(3000))
  t.match(third, [{ lastTransitionTime: new Date(3000).toISOString() }])
})
