import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const EC = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']

export interface PrivateCa {
  ca: string
  key: string
  cert: string
  files: { ca: string; key: string; cert: string }
}

/** A company's own certificate authority, and a server's certificate that it signed for the address `host`; files in `folder`. */
export function privateCa(folder: string, host = '127.0.0.1'): PrivateCa {
  const at = (name: string) => join(folder, name)
  const openssl = (...args: string[]) => execFileSync('openssl', ['req', '-x509', ...EC, ...args], { stdio: 'pipe' })
  openssl('-subj', '/CN=Our Own CA', '-keyout', at('ca.key'), '-out', at('ca.pem'))
  const server = ['-subj', '/CN=s3', '-addext', `subjectAltName=IP:${host}`, '-addext', 'basicConstraints=CA:FALSE']
  openssl(...server, '-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-keyout', at('key.pem'), '-out', at('cert.pem'))
  const read = (path: string) => readFileSync(path, 'utf8')
  const files = { ca: at('ca.pem'), key: at('key.pem'), cert: at('cert.pem') }
  return { ca: read(files.ca), key: read(files.key), cert: read(files.cert), files }
}
