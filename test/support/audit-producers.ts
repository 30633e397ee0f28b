import { glob, readFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import ts from 'typescript'
import { AUDIT_ACTIONS, type AuditAction } from '../../api/audit/queries.ts'

/**
 * Which code writes which audit entries, read from the source: every place that names an action, and every operation,
 * command and part of the worker from which that place is reached. A name that a declaration mentions counts as reached.
 */
export interface Site {
  action: AuditAction
  file: string
  resource: string
  /** Names of the details. */
  details: string[]
  /** Literal values of `operation` in the details. */
  operations: string[]
  producers: Producer[]
}
export type Producer = { kind: 'operation' | 'command' | 'worker' | 'platform'; name: string }

const ROOT = join(import.meta.dirname, '../..')

interface Node {
  file: string
  /** Names that it mentions: of its file, or imported. */
  names: Set<string>
  sites: Omit<Site, 'producers'>[]
  producer?: Producer
  around?: Node
}

interface File {
  declared: Map<string, Node>
  /** By local name. */
  imported: Map<string, { file: string; name: string }>
  nodes: Node[]
}

export async function readProducers(): Promise<{ sites: Site[]; silent: string[] }> {
  const files = new Map<string, File>()
  for await (const path of glob('api/**/*.ts', { cwd: ROOT })) {
    const text = await readFile(join(ROOT, path), 'utf8')
    files.set(path, readFileOf(path, ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)))
  }
  const nodes = [...files.values()].flatMap((file) => file.nodes)
  const sites = new Map(nodes.flatMap((node) => node.sites.map((site) => [site, new Map<string, Producer>()] as const)))
  const silent: string[] = []
  for (const { producer, ...root } of nodes) {
    if (!producer) continue
    const reached = sitesFrom(root, files)
    for (const site of reached) sites.get(site)?.set(`${producer.kind} ${producer.name}`, producer)
    const isSilent = reached.every(({ action }) => action === 'ACCESS_DENIED')
    if (producer.kind === 'operation' && isSilent) silent.push(producer.name)
  }
  const all = [...sites].map(([site, producers]): Site => ({ ...site, producers: tidy(site, [...producers.values()]) }))
  return { sites: all, silent }
}

/** The platform writes refusals; every other entry is documented at the operation, command or worker that writes it. */
function tidy({ action }: Pick<Site, 'action'>, producers: Producer[]): Producer[] {
  const isPlatform = action === 'ACCESS_DENIED'
  const shown = producers.filter(({ kind }) => (kind === 'platform') === isPlatform)
  return shown.sort((a, b) => (`${a.kind} ${a.name}` < `${b.kind} ${b.name}` ? -1 : 1))
}

function sitesFrom(root: Node, files: ReadonlyMap<string, File>): Omit<Site, 'producers'>[] {
  const seen = new Set<Node>([root])
  const found: Omit<Site, 'producers'>[] = []
  for (const node of seen) {
    found.push(...node.sites)
    if (node.around) seen.add(node.around)
    const file = files.get(node.file)
    for (const name of node.names) {
      const target = file?.declared.get(name) ?? resolve(file, name, files)
      if (target) seen.add(target)
    }
  }
  return found
}

function resolve(file: File | undefined, name: string, files: ReadonlyMap<string, File>): Node | undefined {
  const from = file?.imported.get(name)
  return from && files.get(from.file)?.declared.get(from.name)
}

function readFileOf(path: string, source: ts.SourceFile): File {
  const file: File = { declared: new Map(), imported: new Map(), nodes: [] }
  for (const statement of source.statements) {
    if (ts.isImportDeclaration(statement)) readImport(path, statement, file)
    else {
      const node: Node = { file: path, names: new Set(), sites: [], ...rootOf(path, statement) }
      file.nodes.push(node)
      for (const name of namesOf(statement)) file.declared.set(name, node)
      walk(statement, node, file)
    }
  }
  return file
}

function readImport(path: string, { importClause, moduleSpecifier }: ts.ImportDeclaration, file: File): void {
  const bindings = importClause?.namedBindings
  if (!ts.isStringLiteral(moduleSpecifier) || !moduleSpecifier.text.startsWith('.')) return
  if (!bindings || !ts.isNamedImports(bindings)) return
  const target = relative(ROOT, join(ROOT, dirname(path), moduleSpecifier.text))
  for (const { name, propertyName } of bindings.elements) {
    file.imported.set(name.text, { file: target, name: (propertyName ?? name).text })
  }
}

function namesOf(statement: ts.Statement): string[] {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.flatMap(({ name }) => (ts.isIdentifier(name) ? [name.text] : []))
  }
  const { name } = statement as { name?: ts.Node }
  return name && ts.isIdentifier(name) ? [name.text] : []
}

/** Programs that nothing imports: the worker, what serves every request. */
function rootOf(path: string, statement: ts.Statement): { producer?: Producer } {
  if (ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement)) return {}
  // The program knows all features, whose parts of the worker are roots of their own.
  if (path === 'api/worker/program.ts') return {}
  if (path.startsWith('api/worker/') || path === 'api/audit/sealer.ts') {
    return { producer: { kind: 'worker', name: 'worker' } }
  }
  const feature = /^api\/features\/(.*)\/(worker|consumer)\.ts$/.exec(path)?.[1]
  if (feature !== undefined) return { producer: { kind: 'worker', name: feature } }
  // What runs of retention policies do is work of the same role.
  const retained = /^api\/(?:features\/)?([a-z-]+)\/(?:.*\/)?[a-z-]+-target\.ts$/.exec(path)?.[1]
  if (retained !== undefined) return { producer: { kind: 'worker', name: retained } }
  if (path.startsWith('api/http/')) return { producer: { kind: 'platform', name: 'every operation with a token' } }
  return {}
}

/** Reads what a node mentions. An operation or a command inside of it is a node of its own. */
function walk(at: ts.Node, node: Node, file: File): void {
  if (ts.isTypeNode(at) || ts.isImportDeclaration(at)) return
  if (ts.isPropertyAssignment(at) && /^examples?$/.test(at.name.getText())) return
  if (ts.isObjectLiteralExpression(at)) {
    const producer = producerOf(at)
    if (producer) {
      // With what the declaration around it prepares for all of its operations.
      const own: Node = { file: node.file, names: new Set(), sites: [], producer, around: node }
      file.nodes.push(own)
      at.forEachChild((child) => walk(child, own, file))
      return
    }
  }
  if (ts.isIdentifier(at) && !isPropertyName(at)) node.names.add(at.text)
  if (ts.isStringLiteral(at) && at.text in AUDIT_ACTIONS && node.file !== 'api/audit/queries.ts') {
    node.sites.push(siteOf(at, node.file))
  }
  at.forEachChild((child) => walk(child, node, file))
}

function isPropertyName(name: ts.Identifier): boolean {
  const { parent } = name
  return (
    (ts.isPropertyAccessExpression(parent) && parent.name === name) ||
    (ts.isPropertyAssignment(parent) && parent.name === name)
  )
}

function producerOf(object: ts.ObjectLiteralExpression): Producer | undefined {
  const operation = textOf(propertyOf(object, 'operationId'))
  if (operation !== undefined) return { kind: 'operation', name: operation }
  const { parent } = object
  const isCommand = propertyOf(object, 'help') && ts.isPropertyAssignment(parent) && ts.isStringLiteral(parent.name)
  return isCommand ? { kind: 'command', name: (parent.name as ts.StringLiteral).text } : undefined
}

function propertyOf(object: ts.ObjectLiteralExpression, name: string): ts.Expression | undefined {
  for (const property of object.properties) {
    if (ts.isPropertyAssignment(property) && property.name.getText() === name) return property.initializer
    if (ts.isShorthandPropertyAssignment(property) && property.name.text === name) return property.name
    if (ts.isSpreadAssignment(property) && ts.isObjectLiteralExpression(property.expression)) {
      const inside = propertyOf(property.expression, name)
      if (inside) return inside
    }
  }
  return undefined
}

const textOf = (node: ts.Expression | undefined) => (node && ts.isStringLiteralLike(node) ? node.text : undefined)

/** `audit('ACTION', row, details, resource)`, `{ action: 'ACTION', resourceType, details }`, or a helper's argument. */
function siteOf(literal: ts.StringLiteral, file: string): Omit<Site, 'producers'> {
  const action = literal.text as AuditAction
  const around = literal.parent
  let details: ts.Expression | undefined
  let resource: string | undefined
  if (ts.isCallExpression(around) && around.arguments[0] === literal) {
    details = around.arguments[2]
    resource = textOf(around.arguments[3])
  } else {
    const object = closest(literal, ts.isObjectLiteralExpression)
    details = object && propertyOf(object, 'details')
    resource = object && textOf(propertyOf(object, 'resourceType'))
  }
  const object = objectOf(details)
  const names = object ? object.properties.flatMap(nameOfProperty) : []
  return {
    action,
    file,
    resource: resource ?? AUDIT_ACTIONS[action],
    details: [...new Set(names)],
    operations: object ? literalsOf(propertyOf(object, 'operation')) : operationsIn(literal, details),
  }
}

function closest<T extends ts.Node>(node: ts.Node, is: (node: ts.Node) => node is T): T | undefined {
  for (let at: ts.Node | undefined = node; at && !ts.isSourceFile(at); at = at.parent) if (is(at)) return at
  return undefined
}

/** Those of a file whose helper passes the details on. */
function operationsIn(literal: ts.StringLiteral, details: ts.Expression | undefined): string[] {
  if (!details) return []
  const found: string[] = []
  const visit = (node: ts.Node) => {
    if (ts.isPropertyAssignment(node) && node.name.getText() === 'operation')
      found.push(...literalsOf(node.initializer))
    node.forEachChild(visit)
  }
  visit(literal.getSourceFile())
  return [...new Set(found)]
}

/** The literal, also when a constant of the same function names it. */
function objectOf(details: ts.Expression | undefined): ts.ObjectLiteralExpression | undefined {
  if (!details || ts.isObjectLiteralExpression(details)) return details
  if (!ts.isIdentifier(details)) return undefined
  const constants: ts.VariableDeclaration[] = []
  const visit = (node: ts.Node) => {
    if (ts.isVariableDeclaration(node) && node.name.getText() === details.text) constants.push(node)
    node.forEachChild(visit)
  }
  for (
    let body = closest(details, ts.isBlock);
    body && constants.length === 0;
    body = closest(body.parent, ts.isBlock)
  ) {
    visit(body)
  }
  const [initializer] = constants.map((one) => one.initializer)
  return initializer && ts.isObjectLiteralExpression(initializer) ? initializer : undefined
}

function nameOfProperty(property: ts.ObjectLiteralElementLike): string[] {
  if (property.name) return [property.name.getText()]
  if (!ts.isSpreadAssignment(property)) return []
  const names: string[] = []
  const visit = (node: ts.Node) => {
    if (ts.isObjectLiteralExpression(node)) names.push(...node.properties.flatMap(nameOfProperty))
    else node.forEachChild(visit)
  }
  visit(property.expression)
  return names
}

/** Literals in an expression, such as both of a condition. */
function literalsOf(node: ts.Expression | undefined): string[] {
  if (!node) return []
  if (ts.isStringLiteralLike(node)) return [node.text]
  if (ts.isConditionalExpression(node)) return [...literalsOf(node.whenTrue), ...literalsOf(node.whenFalse)]
  return []
}
