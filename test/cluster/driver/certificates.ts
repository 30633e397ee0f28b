import { generateKeyPairSync } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { runWith } from './cluster.ts'
import type { RunFolder } from './run-folder.ts'

const CURVE = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
const DAYS = ['-days', '30']

/** A certificate authority of this cluster alone. */
export interface Certificates {
  /** Its certificate. */
  authority: string
  /** Signs ServiceAccount tokens, and checks them. */
  serviceAccountKey: string
  serviceAccountPublicKey: string
  /** A key pair for this subject (`/O=group/CN=name`) and these names (`IP:…`, `DNS:…`). */
  issue(name: string, subject: string, names: readonly string[]): Promise<{ certificate: string; key: string }>
  /** Path of a kubeconfig for that holder. */
  kubeconfig(name: string, server: string): Promise<string>
}

/** Makes them in the run's folder, which is private. */
export async function makeCertificates(run: RunFolder): Promise<Certificates> {
  const at = (name: string) => run.file('pki', name)
  await mkdir(run.file('pki'), { recursive: true })
  const [authority, authorityKey] = [at('ca.crt'), at('ca.key')]
  const subject = ['-subj', '/CN=keepsake-test']
  await openssl('req', '-x509', ...CURVE, ...DAYS, ...subject, '-keyout', authorityKey, '-out', authority)

  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  await writeFile(at('sa.key'), privateKey.export({ type: 'pkcs8', format: 'pem' }))
  await writeFile(at('sa.pub'), publicKey.export({ type: 'spki', format: 'pem' }))

  return {
    authority,
    serviceAccountKey: at('sa.key'),
    serviceAccountPublicKey: at('sa.pub'),
    async issue(name, subject, names) {
      const [key, request, certificate, extensions] = ['key', 'csr', 'crt', 'ext'].map((end) =>
        at(`${name}.${end}`),
      ) as Four
      await writeFile(extensions, `subjectAltName=${names.join(',')}\nextendedKeyUsage=serverAuth,clientAuth\n`)
      await openssl('req', ...CURVE, '-subj', subject, '-keyout', key, '-out', request)
      const signer = ['-CA', authority, '-CAkey', authorityKey, '-set_serial', String(serial++)]
      await openssl('x509', '-req', ...DAYS, ...signer, '-in', request, '-out', certificate, '-extfile', extensions)
      return { certificate, key }
    },
    async kubeconfig(name, server) {
      const path = run.file(`${name}.kubeconfig`)
      // JSON is YAML.
      await writeFile(path, JSON.stringify(configOf(name, server, authority, at(`${name}.crt`), at(`${name}.key`))))
      return path
    },
  }
}

type Four = [string, string, string, string]
let serial = 1

const openssl = (...args: string[]) => runWith('', ['openssl', ...args])

const configOf = (user: string, server: string, authority: string, certificate: string, key: string) => ({
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [{ name: 'keepsake', cluster: { server, 'certificate-authority': authority } }],
  users: [{ name: user, user: { 'client-certificate': certificate, 'client-key': key } }],
  contexts: [{ name: 'keepsake', context: { cluster: 'keepsake', user } }],
  'current-context': 'keepsake',
})
