import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const EC = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']

/** A company's own certificate authority, and a server's certificate that it signed for 127.0.0.1; files in `folder`. */
export function privateCa(folder: string): { ca: string; key: string; cert: string } {
  const at = (name: string) => join(folder, name)
  const openssl = (...args: string[]) => execFileSync('openssl', ['req', '-x509', ...EC, ...args], { stdio: 'pipe' })
  openssl('-subj', '/CN=Our Own CA', '-keyout', at('ca.key'), '-out', at('ca.pem'))
  const server = ['-subj', '/CN=s3', '-addext', 'subjectAltName=IP:127.0.0.1', '-addext', 'basicConstraints=CA:FALSE']
  openssl(...server, '-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-keyout', at('key.pem'), '-out', at('cert.pem'))
  const read = (name: string) => readFileSync(at(name), 'utf8')
  return { ca: read('ca.pem'), key: read('key.pem'), cert: read('cert.pem') }
}
