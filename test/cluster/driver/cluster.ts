import { spawn } from 'node:child_process'

/** What every suite gets, whoever made the cluster. */
export interface TestCluster {
  provider: 'given' | 'kind' | 'modules'
  /** Path of an administrator's kubeconfig. */
  kubeconfig: string
  /** Such as v1.36.3. */
  version: string
  /** With a node: where processes beside it are reached from pods. */
  nodeAddress?: string
  /** What kubectl wrote; throws what it complained about. */
  kubectl(...args: string[]): Promise<string>
  /** The same with something on standard input. */
  kubectlIn(input: string, ...args: string[]): Promise<string>
  /** Only where the cluster is ours to break: provider `modules`. */
  faults?: ClusterFaults
}

export interface ClusterFaults {
  /** Without warning. */
  killApiServer(): Promise<void>
  /** On the same port; resolves when it is ready. */
  startApiServer(): Promise<void>
  /** Forgets everything but the newest revision, so that a watch or a page from an earlier one is answered 410. */
  compactEtcd(): Promise<void>
  stopControllers(): Promise<void>
  startControllers(): Promise<void>
  /** These three need a node. Pods go on while the kubelet is away, but nobody reports about them. */
  stopKubelet(): Promise<void>
  startKubelet(): Promise<void>
  /** An archive as `docker save` writes it. */
  loadImage(archive: string): Promise<void>
}

/** A cluster that somebody has to stop. */
export interface RunningCluster extends TestCluster {
  stop(): Promise<void>
}

type Kubectl = Pick<TestCluster, 'kubectl' | 'kubectlIn'>

/** kubectl with this kubeconfig and nothing from the user's own; `command` may lead into a network namespace. */
export function kubectlWith(command: readonly string[], kubeconfig: string): Kubectl {
  const call = (input: string, args: string[]) => runWith(input, [...command, `--kubeconfig=${kubeconfig}`, ...args])
  return { kubectl: (...args) => call('', args), kubectlIn: (input, ...args) => call(input, args) }
}

/** Runs a program to its end with this standard input: its standard output, or an error that holds its complaints. */
export async function runWith(
  input: string,
  command: readonly string[],
  env?: Record<string, string>,
): Promise<string> {
  const [program = '', ...args] = command
  const child = spawn(program, args, { stdio: 'pipe', ...(env && { env: { ...process.env, ...env } }) })
  const written = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (written.out += chunk))
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (written.err += chunk))
  // Who does not read everything is heard by its status, not by our broken pipe.
  child.stdin.on('error', () => {}).end(input)
  const status = await new Promise<number | string>((resolve, reject) => {
    child.once('error', reject).once('close', (code, signal) => resolve(code ?? String(signal)))
  })
  if (status === 0) return written.out
  throw new Error(`${command.join(' ')} ended with ${status}: ${written.err.slice(-4000)}`)
}

/** The version that the API server says it has. */
export async function versionOf({ kubectl }: Kubectl): Promise<string> {
  return (JSON.parse(await kubectl('get', '--raw', '/version')) as { gitVersion: string }).gitVersion
}
