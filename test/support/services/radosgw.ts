import { randomBytes, randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'minio'
import type { S3Options } from '../../../lib/runtime/object-store/s3-client.ts'
import { freePort } from '../../../local/ports.ts'
import { ownLoopback } from './loopback.ts'
import { missingProgram, runProgram, startProcess, stopProcess, waitFor } from './process.ts'

export interface RadosGateway {
  /** Endpoint, keys and an empty bucket. */
  s3: S3Options
  /** Another empty bucket. */
  makeBucket(name: string, placementTarget?: string): Promise<S3Options>
  stop(): Promise<void>
}

/** Paths of files in PEM. */
export interface TlsFiles {
  cert: string
  key: string
}

/** A storage class of buckets as `makeBucket` makes them, which reads at once as everything does here. */
export const COLD_CLASS = 'GLACIER_IR'
/** Another placement target, for buckets on other disks. It has no class but the standard one. */
export const COLD_PLACEMENT = 'cold-placement'

type Placement = Record<'zonegroup' | 'zone', string[]>
const placement = (id: string, ...zone: string[]): Placement => ({
  zonegroup: ['--rgw-zonegroup', 'default', '--placement-id', id],
  zone: ['--rgw-zone', 'default', '--placement-id', id, ...zone],
})
const inClass = ({ zonegroup, zone }: Placement): Placement => ({
  zonegroup: [...zonegroup, '--storage-class', COLD_CLASS],
  zone: [...zone, '--storage-class', COLD_CLASS],
})
const pools = ['data', 'index', 'data-extra'].flatMap((kind) => [`--${kind}-pool`, `default.rgw.cold.${kind}`])
const PLACEMENTS = [
  inClass(placement('default-placement', '--data-pool', 'default.rgw.ir')),
  placement(COLD_PLACEMENT, ...pools),
]

export interface GatewayOptions {
  host?: string
  tls?: TlsFiles
  /** With COLD_CLASS and COLD_PLACEMENT. */
  isTiered?: boolean
}

const PROGRAMS = ['ceph-mon', 'ceph-osd', 'radosgw', 'radosgw-admin', 'ceph', 'monmaptool']
const REGION = 'us-east-1'

/**
 * A real S3 server, Ceph's gateway, on one monitor and one storage daemon that keeps everything in memory. It checks
 * signatures, digests and part sizes as Amazon does. Each cluster has a loopback address of its own; the gateway listens
 * on `host` where one is given. With `tls` it speaks TLS alone there, and plain HTTP on the loopback address, which is
 * then the public endpoint. Undefined where Ceph is not installed.
 */
export async function startRadosGateway(o: GatewayOptions = {}): Promise<RadosGateway | undefined> {
  if (await missingProgram(PROGRAMS)) return undefined
  // Ceph cannot choose its ports itself: another program may take one between our finding it free and Ceph's binding it.
  for (let left = 2; ; left--) {
    try {
      return await startOnce(o)
    } catch (error) {
      if (left === 0) throw error
    }
  }
}

async function startOnce(o: GatewayOptions): Promise<RadosGateway> {
  // Ceph's admin sockets lie in here, and a socket path may not be long.
  const folder = await mkdtemp(join(tmpdir(), 'ks-rgw-'))
  const stoppers: (() => Promise<void>)[] = [() => rm(folder, { recursive: true, force: true })]
  const stop = async () => {
    for (const close of stoppers.splice(0).reverse()) await close()
  }
  try {
    const s3 = await startCeph(folder, o, (close) => stoppers.push(close))
    const makeBucket = async (bucket: string, target = ''): Promise<S3Options> => {
      const location = `<LocationConstraint>:${target}</LocationConstraint>`
      const body = target && `<CreateBucketConfiguration>${location}</CreateBucketConfiguration>`
      const made = await clientOf(s3).makeRequestAsync({ method: 'PUT', bucketName: bucket }, body, [200], REGION)
      made.resume()
      return { ...s3, bucket }
    }
    return { s3: await makeBucket(s3.bucket), makeBucket, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function startCeph(
  folder: string,
  { host, tls, isTiered = false }: GatewayOptions,
  onStop: (close: () => Promise<void>) => void,
): Promise<S3Options> {
  const own = ownLoopback()
  const [monPort, gatewayPort, tlsPort] = [await freePort(), await freePort(), await freePort()]
  // By the second protocol a client waits for the monitor map after its handshake. By the first it does not, and a
  // storage daemon whose monitor is slow sends its first command with an empty cluster id and ends ("wrong fsid").
  const monitor = `[v2:${own}:${monPort}]`
  const conf = join(folder, 'ceph.conf')
  const fsid = randomUUID()
  const osd = randomUUID()
  const plain = `${tls ? own : (host ?? own)}:${gatewayPort}`
  const secureAddress = `${host ?? own}:${tlsPort}`
  const secure = tls ? ` ssl_endpoint=${secureAddress} ssl_certificate=${tls.cert} ssl_private_key=${tls.key}` : ''
  const frontend = `endpoint=${plain}${secure}`
  for (const name of ['mon', 'osd', 'rgw']) await mkdir(join(folder, name))
  await writeFile(conf, cephConf({ folder, fsid, monitor, address: own, frontend }))

  const daemon = async (name: string, args: string[], ready: () => Promise<boolean>) => {
    const logFile = join(folder, `${name}.out`)
    const child = await startProcess(name, ['-f', '-c', conf, ...args], logFile)
    // Nothing in it is worth keeping, and an orderly end takes seconds.
    onStop(() => stopProcess(child, 'SIGKILL'))
    await waitFor(name, child, logFile, ready)
  }
  const ceph = (...args: string[]) => runProgram('ceph', ['-c', conf, '--connect-timeout', '120', ...args])

  await runProgram('monmaptool', ['--create', '--fsid', fsid, '--addv', 'a', monitor, join(folder, 'monmap')])
  await runProgram('ceph-mon', ['-i', 'a', '--mkfs', '--monmap', join(folder, 'monmap'), '-c', conf])
  await daemon('ceph-mon', ['-i', 'a'], async () => (await ceph('fsid')).includes(fsid))
  // It asks the monitor, so not earlier.
  await runProgram('ceph-osd', ['-i', '0', '--mkfs', '--osd-uuid', osd, '-c', conf])
  await ceph('osd', 'new', osd)
  await ceph('osd', 'crush', 'add', 'osd.0', '1.0', 'root=default', 'host=h')
  await daemon('ceph-osd', ['-i', '0'], async () => /\b1 up\b/.test(await ceph('osd', 'stat')))

  const keys = { accessKey: 'TESTACCESS', secretKey: randomBytes(20).toString('hex') }
  const user = ['--uid=test', '--display-name=test', `--access-key=${keys.accessKey}`, `--secret-key=${keys.secretKey}`]
  await runProgram('radosgw-admin', ['-c', conf, 'user', 'create', ...user])
  // Without a realm, classes are known once they are in the zone, before the gateway starts.
  for (const { zonegroup, zone } of isTiered ? PLACEMENTS : []) {
    await runProgram('radosgw-admin', ['-c', conf, 'zonegroup', 'placement', 'add', ...zonegroup])
    await runProgram('radosgw-admin', ['-c', conf, 'zone', 'placement', 'add', ...zone])
  }
  const endpoint = `http://${plain}`
  await daemon('radosgw', ['-n', 'client.rgw'], async () => (await fetch(endpoint)).ok)
  const where = tls ? { endpoint: `https://${secureAddress}`, publicEndpoint: endpoint } : { endpoint }
  return { ...where, region: REGION, bucket: 'keepsake-test', ...keys }
}

function clientOf(s3: S3Options): Client {
  const { hostname, port } = new URL(s3.publicEndpoint ?? s3.endpoint)
  const { accessKey, secretKey, region } = s3
  return new Client({ endPoint: hostname, port: Number(port), useSSL: false, accessKey, secretKey, region })
}

interface CephSettings {
  folder: string
  fsid: string
  /** As Ceph writes it, e.g. `[v2:127.1.2.3:3300]`. */
  monitor: string
  address: string
  /** What the gateway listens on. */
  frontend: string
}

const cephConf = ({ folder, fsid, monitor, address, frontend }: CephSettings) => `[global]
fsid = ${fsid}
mon_host = ${monitor}
mon_initial_members = a
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
public_addr = ${address}
cluster_addr = ${address}
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = 2147483648
run_dir = ${folder}
admin_socket = ${folder}/$name.asok
log_file = ${folder}/$name.log
pid_file = ${folder}/$name.pid
mon_data = ${folder}/mon
osd_data = ${folder}/osd
rgw_data = ${folder}/rgw
keyring = ${folder}/keyring
rgw_frontends = beast ${frontend}
rgw_enable_usage_log = false
rgw_crypt_require_ssl = false
`
